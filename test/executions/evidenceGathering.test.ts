import type { EvidenceOutcome } from '../../src/connections';
import { EvidenceGathering, type EvidencePlace, type FoundEvidence } from '../../src/executions/evidence/evidenceGathering';
import { DomainError } from '../../src/kernel/errors';
import { PORTION } from '../../src/executions/store/openStatements';

const PLACE: EvidencePlace = { organizationId: 'org-1', connectionId: 'connection-1', source: 'gateway:one' };

function found(executionId: string, kind: 'transport_ok' | 'ack' = 'transport_ok'): FoundEvidence {
  return { executionId, evidence: { kind } };
}

/** Keeps what was settled together; each outcome is what `outcomeOf` says. */
function gathering(outcomeOf: (one: FoundEvidence) => EvidenceOutcome = () => 'applied') {
  const settled: string[][] = [];
  const gathered = new EvidenceGathering(async ({ connectionId }, all) => {
    const outcomes = all.map(outcomeOf);
    settled.push(all.map(({ executionId, evidence }) => `${connectionId} ${executionId} ${evidence.kind}`));
    return await Promise.resolve(outcomes);
  });
  return { gathered, settled };
}

describe('gathered evidence', () => {
  it('of one turn and one place is settled together, each with its own outcome', async () => {
    const { gathered, settled } = gathering(({ executionId }) => (executionId === 'b' ? 'late' : 'applied'));
    const elsewhere = { ...PLACE, connectionId: 'connection-2' };
    const outcomes = await Promise.all([gathered.add(PLACE, found('a')), gathered.add(PLACE, found('b')), gathered.add(elsewhere, found('c'))]);
    expect(outcomes).toEqual(['applied', 'late', 'applied']);
    expect(settled).toEqual([['connection-1 a transport_ok', 'connection-1 b transport_ok'], ['connection-2 c transport_ok']]);
    await gathered.add(PLACE, found('d'));
    expect(settled.at(-1)).toEqual(['connection-1 d transport_ok']);
  });

  it('for one execution is settled one after another, and never more than a portion together', async () => {
    const { gathered, settled } = gathering();
    await Promise.all([gathered.add(PLACE, found('a')), gathered.add(PLACE, found('a', 'ack'))]);
    expect(settled).toEqual([['connection-1 a transport_ok'], ['connection-1 a ack']]);
    await Promise.all(Array.from({ length: 2 * PORTION + 7 }, async (_, n) => await gathered.add(PLACE, found(`many-${n}`))));
    expect(settled.slice(2).map((chunk) => chunk.length)).toEqual([PORTION, PORTION, 7]);
  });

  it('that cannot be settled does not take the others along', async () => {
    const { gathered } = gathering(({ executionId }) => {
      if (executionId === 'bad') throw new Error('a fault');
      return 'applied';
    });
    const outcomes = await Promise.allSettled(['a', 'bad', 'c'].map(async (executionId) => await gathered.add(PLACE, found(executionId))));
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });

  it('is refused together when the database is away', async () => {
    let asked = 0;
    const { gathered } = gathering(() => {
      asked += 1;
      throw new DomainError('unavailable', 'database_unavailable', 'the database is away; try again');
    });
    const outcomes = await Promise.allSettled(['a', 'b'].map(async (executionId) => await gathered.add(PLACE, found(executionId))));
    expect([outcomes.map(({ status }) => status), asked]).toEqual([['rejected', 'rejected'], 1]);
  });
});
