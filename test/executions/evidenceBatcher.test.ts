import type { EvidenceOutcome } from '../../src/connections';
import {
  EvidenceBatcher,
  type EvidenceSource,
  type EvidenceReport,
} from '../../src/executions/evidence/evidenceBatcher';
import { DomainError } from '../../src/kernel/errors';
import { EXECUTION_BATCH_SIZE } from '../../src/executions/store/openStatements';

const PLACE: EvidenceSource = { organizationId: 'org-1', connectionId: 'connection-1', source: 'gateway:one' };

function createEvidence(executionId: string, kind: 'transport_ok' | 'ack' = 'transport_ok'): EvidenceReport {
  return { executionId, evidence: { kind } };
}

/** Records what was settled together; each outcome is the result of `getOutcome`. */
function createBatcher(getOutcome: (one: EvidenceReport) => EvidenceOutcome = () => 'applied') {
  const batches: string[][] = [];
  const batcher = new EvidenceBatcher(async ({ connectionId }, all) => {
    const outcomes = all.map(getOutcome);
    batches.push(all.map(({ executionId, evidence }) => `${connectionId} ${executionId} ${evidence.kind}`));
    return await Promise.resolve(outcomes);
  });
  return { batcher, batches };
}

describe('gathered evidence', () => {
  it('of one turn and one place is settled together, each with its own outcome', async () => {
    const { batcher, batches } = createBatcher(({ executionId }) => (executionId === 'b' ? 'late' : 'applied'));
    const otherPlace = { ...PLACE, connectionId: 'connection-2' };
    const outcomes = await Promise.all([
      batcher.add(PLACE, createEvidence('a')),
      batcher.add(PLACE, createEvidence('b')),
      batcher.add(otherPlace, createEvidence('c')),
    ]);
    expect(outcomes).toEqual(['applied', 'late', 'applied']);
    expect(batches).toEqual([
      ['connection-1 a transport_ok', 'connection-1 b transport_ok'],
      ['connection-2 c transport_ok'],
    ]);
    await batcher.add(PLACE, createEvidence('d'));
    expect(batches.at(-1)).toEqual(['connection-1 d transport_ok']);
  });

  it('for one execution is settled in sequence, and never more than one batch together', async () => {
    const { batcher, batches } = createBatcher();
    await Promise.all([batcher.add(PLACE, createEvidence('a')), batcher.add(PLACE, createEvidence('a', 'ack'))]);
    expect(batches).toEqual([['connection-1 a transport_ok'], ['connection-1 a ack']]);
    await Promise.all(
      Array.from(
        { length: 2 * EXECUTION_BATCH_SIZE + 7 },
        async (_, n) => await batcher.add(PLACE, createEvidence(`many-${n}`)),
      ),
    );
    expect(batches.slice(2).map((chunk) => chunk.length)).toEqual([EXECUTION_BATCH_SIZE, EXECUTION_BATCH_SIZE, 7]);
  });

  it('that cannot be settled does not affect the others', async () => {
    const { batcher } = createBatcher(({ executionId }) => {
      if (executionId === 'bad') throw new Error('a fault');
      return 'applied';
    });
    const outcomes = await Promise.allSettled(
      ['a', 'bad', 'c'].map(async (executionId) => await batcher.add(PLACE, createEvidence(executionId))),
    );
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });

  it('is rejected together when the database is unavailable', async () => {
    let calls = 0;
    const { batcher } = createBatcher(() => {
      calls += 1;
      throw new DomainError('unavailable', 'database_unavailable', 'the database is away; try again');
    });
    const outcomes = await Promise.allSettled(
      ['a', 'b'].map(async (executionId) => await batcher.add(PLACE, createEvidence(executionId))),
    );
    expect([outcomes.map(({ status }) => status), calls]).toEqual([['rejected', 'rejected'], 1]);
  });
});
