import { type GatewayStore, sqliteStore } from '../../../src/client/gateway';
import { IDENTITY, newFile, removeFiles } from './stores';
import { buildStoreChild } from './storeChild';

const KILLS = 4;
const STAGES = ['received', 'started', 'ended'];

function everyUplink(store: GatewayStore): string[] {
  const ids: string[] = [];
  for (
    let page = store.uplinksAfter(0, 500);
    page.length > 0;
    page = store.uplinksAfter(page.at(-1)?.position ?? 0, 500)
  )
    ids.push(...page.map(({ uplinkId }) => uplinkId));
  return ids;
}

/** Returns the IDs in the output lines with this verb. */
function getSaid(lines: readonly string[], verb: string): string[] {
  return lines.filter((line) => line.startsWith(`${verb} `)).map((line) => line.slice(verb.length + 1));
}

/** Asserts that the uplinks of each lane arrived in order. */
function expectInOrder(uplinks: readonly string[]): void {
  const lastOf = new Map<string, number>();
  for (const id of uplinks) {
    const [, lane, at] = /^(.*)-(\d+)$/.exec(id) ?? [];
    expect(Number(at)).toBeGreaterThan(lastOf.get(lane ?? '') ?? -1);
    lastOf.set(lane ?? '', Number(at));
  }
}

describe('a store whose process is killed', () => {
  const child = buildStoreChild();

  afterAll(() => {
    child.remove();
    removeFiles();
  });

  it(`holds every write that had resolved, in order and once, after each of ${KILLS} kills`, async () => {
    const file = newFile();
    const output: string[] = [];
    for (let kill = 0; kill < KILLS; kill += 1) {
      const writing = child.start(file, `k${kill}`);
      await writing.waitForLines(500 + 377 * kill);
      output.push(...(await writing.kill()));
      expect(getSaid(output, 'failing')).toEqual([]);

      const store = sqliteStore(file);
      store.open(IDENTITY);
      const uplinks = everyUplink(store);
      expect(new Set(uplinks).size).toBe(uplinks.length);
      expect(store.uplinkCount).toBe(uplinks.length);
      const forgotten = new Set(getSaid(output, 'forgotten'));
      const missing = getSaid(output, 'kept').filter((id) => !forgotten.has(id) && !uplinks.includes(id));
      expect(missing).toEqual([]);
      expectInOrder(uplinks);

      const stages = new Map(
        store.openCommands().map(({ executionId, stage }) => [executionId, STAGES.indexOf(stage)]),
      );
      const behind = STAGES.flatMap((stage, at) => getSaid(output, stage).filter((id) => (stages.get(id) ?? -1) < at));
      expect(behind).toEqual([]);
      store.close();
    }
    expect(getSaid(output, 'kept').length).toBeGreaterThan(500);
  });

  it('rejects a second process immediately, and is free when the first was killed', async () => {
    const file = newFile();
    const first = child.start(file, 'a');
    await first.waitForLines(1);
    expect(await child.start(file, 'b').waitForExit()).toEqual(['refused store_in_use']);
    await first.kill();
    const store = sqliteStore(file);
    store.open(IDENTITY);
    store.close();
  });
});
