import type { GatewayStore, StoreChange } from '../../src/client/gateway';
import type { ChildTraps } from './childTraps';
import type { WorldFile } from './worldFile';

/** The same store; what is about to be kept as started is noted before, and every change is a point at which the process can be killed. */
export function watchedStore(store: GatewayStore, world: WorldFile, traps: ChildTraps): GatewayStore {
  const apply = (changes: readonly StoreChange[]): void => {
    const names = changes.map(nameOf);
    for (const change of changes) if (nameOf(change) === 'start') world.note({ kind: 'starting', executionId: executionIdOf(change) });
    for (const name of names) traps.pass(BEFORE[name] ?? '');
    store.apply(changes);
    for (const name of names) traps.pass(AFTER[name] ?? '');
  };
  return new Proxy(store, {
    get: (_, name) => {
      if (name === 'apply') return apply;
      const value: unknown = Reflect.get(store, name, store);
      return typeof value === 'function' ? (value.bind(store) as unknown) : value;
    },
  });
}

const BEFORE: Readonly<Record<string, string>> = { start: 'starting', end: 'ending', uplink: 'uplink_keeping' };
const AFTER: Readonly<Record<string, string>> = { start: 'started', end: 'ended', uplink: 'uplink_kept' };

function nameOf(change: StoreChange): string {
  if (change.kind !== 'command') return change.kind;
  if (change.command.stage === 'started') return 'start';
  return change.command.stage === 'ended' ? 'end' : 'command';
}

function executionIdOf(change: StoreChange): string {
  return change.kind === 'command' ? change.command.executionId : '';
}
