import { type GatewayStore, memoryStore, sqliteStore, type StoreChange } from '../../../src/client/gateway';
import { acknowledgeCommand, forgetUplinks, IDENTITY, storeCommand, newFile, removeFiles, storeUplink } from './stores';

const SEED = 20261123;
const ROUNDS = 400;
const STAGES = ['received', 'started', 'ended'] as const;

/** Returns a generator of numbers below a bound, the same for the same seed. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A minimal model of the expected behavior of a store. */
class Model {
  commands: { id: string; stage: number; result: number }[] = [];
  acknowledged = new Map<string, number>();
  uplinks: string[] = [];

  applyChange(change: StoreChange): void {
    if (change.kind === 'command')
      this.keep(
        change.command.executionId,
        (STAGES as readonly string[]).indexOf(change.command.stage),
        change.command.result,
      );
    if (change.kind === 'command_acknowledged') this.acknowledge(change.executionId);
    if (change.kind === 'uplink' && !this.uplinks.includes(change.uplink.uplinkId))
      this.uplinks.push(change.uplink.uplinkId);
    if (change.kind === 'uplink_acknowledged') this.uplinks = this.uplinks.filter((id) => id !== change.uplinkId);
  }

  private keep(id: string, stage: number, result: number): void {
    if (this.acknowledged.has(id)) return;
    const known = this.commands.find((command) => command.id === id);
    if (!known) this.commands.push({ id, stage, result });
    else if (stage > known.stage) Object.assign(known, { stage, result });
  }

  private acknowledge(id: string): void {
    const known = this.commands.find((command) => command.id === id);
    if (!known) return;
    this.commands = this.commands.filter((command) => command !== known);
    this.acknowledged.set(id, known.result);
  }
}

function anyChange(below: (bound: number) => number): StoreChange {
  const id = String(below(40));
  const stage = below(3);
  const kinds = [
    () => storeCommand(`e${id}`, STAGES[stage], { result: stage === 2 ? 1 + below(7) : 0 }),
    () => acknowledgeCommand(`e${id}`),
    () => storeUplink(`u${id}`, below(20) === 0 ? 70_000 : 30),
    () => forgetUplinks(`u${id}`),
  ];
  return (kinds[below(kinds.length)] as () => StoreChange)();
}

function readState(store: GatewayStore): unknown {
  const uplinks: string[] = [];
  for (let page = store.uplinksAfter(0, 7); page.length > 0; page = store.uplinksAfter(page.at(-1)?.position ?? 0, 7))
    uplinks.push(...page.map(({ uplinkId }) => uplinkId));
  return {
    commands: store.openCommands().map(({ executionId, stage, result }) => ({
      id: executionId,
      stage: (STAGES as readonly string[]).indexOf(stage),
      result,
    })),
    uplinks,
    count: store.uplinkCount,
  };
}

describe.each([
  ['memory', () => memoryStore()],
  ['sqlite', () => sqliteStore(newFile())],
] as const)('the %s store', (_, createStore) => {
  afterAll(removeFiles);

  it(`behaves like a simple model for any sequence of operations (seed ${SEED})`, () => {
    const below = createRandom(SEED);
    const store = createStore();
    const model = new Model();
    store.open(IDENTITY);
    for (let round = 0; round < ROUNDS; round += 1) {
      const changes = Array.from({ length: 1 + below(8) }, () => anyChange(below));
      store.apply(changes);
      for (const change of changes) model.applyChange(change);
      if (below(10) === 0) {
        store.close();
        store.open(IDENTITY);
      }
      const { commands, uplinks } = model;
      expect({ round, ...(readState(store) as object) }).toEqual({ round, commands, uplinks, count: uplinks.length });
    }
    for (const [id, result] of model.acknowledged)
      expect(store.findCommand(id)).toMatchObject({ stage: 'acknowledged', result });
    expect(model.acknowledged.size).toBeGreaterThan(30);
    store.close();
  });
});
