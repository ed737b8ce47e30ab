import type { GatewayStore, StoreChange } from '../../src/client/gateway';
import type { ChildTraps } from './childTraps';
import type { WorldFile } from './worldFile';

/**
 * Wraps a store so that the start of a delivery is recorded in the world file before it is stored, and every change is a
 * point at which the process can be killed.
 */
export function createWatchedStore(store: GatewayStore, world: WorldFile, traps: ChildTraps): GatewayStore {
  const apply = (changes: readonly StoreChange[]): void => {
    const names = changes.map(getName);
    for (const change of changes)
      if (getName(change) === 'start') world.note({ kind: 'starting', executionId: getExecutionId(change) });
    for (const name of names) traps.pass(POINTS_BEFORE[name] ?? '');
    store.apply(changes);
    for (const name of names) traps.pass(POINTS_AFTER[name] ?? '');
  };
  return new Proxy(store, {
    get: (_, name) => {
      if (name === 'apply') return apply;
      const value: unknown = Reflect.get(store, name, store);
      return typeof value === 'function' ? (value.bind(store) as unknown) : value;
    },
  });
}

const POINTS_BEFORE: Readonly<Record<string, string>> = { start: 'starting', end: 'ending', uplink: 'uplink_keeping' };
const POINTS_AFTER: Readonly<Record<string, string>> = { start: 'started', end: 'ended', uplink: 'uplink_kept' };

function getName(change: StoreChange): string {
  if (change.kind !== 'command') return change.kind;
  if (change.command.stage === 'started') return 'start';
  return change.command.stage === 'ended' ? 'end' : 'command';
}

function getExecutionId(change: StoreChange): string {
  return change.kind === 'command' ? change.command.executionId : '';
}
