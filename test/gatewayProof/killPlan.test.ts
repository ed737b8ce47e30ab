import { judgeForgetful } from '../../scripts/gatewayProof/judgeForgetful';
import { KillPlan } from '../../scripts/gatewayProof/killPlan';
import { Random } from '../../scripts/soak/random';

const POINTS = ['kept', 'sent', 'told', 'forgotten'] as const;

const createOrder = (executionId: string, result: string | undefined) => ({
  executionId,
  clientDeviceId: 'valve-1',
  n: 1,
  attempt: 2,
  isReceived: true,
  isAcknowledged: true,
  result,
});
const starting = (executionId: string) => ({ kind: 'starting', executionId }) as const;
const delivered = (executionId: string) =>
  ({ kind: 'delivered', executionId, clientDeviceId: 'valve-1', payload: {}, at: 0 }) as const;
const sent = { kind: 'sent', clientDeviceId: 'meter-0', value: 5 } as const;

const runJudge = (
  commands: ReturnType<typeof createOrder>[],
  world: Parameters<typeof judgeForgetful>[1],
  ids: string[] = ['u1'],
) =>
  judgeForgetful({ ordered: commands, wrong: [], uplinks: new Map([['meter-0 5', new Set(ids)]]) }, world, ['meter-0']);

describe('the kill plan', () => {
  it('kills at every place when it is first reached, in a seeded order, before it picks places at random', () => {
    const plan = new KillPlan(POINTS, new Random(7), () => 10);
    const traps = POINTS.map(() => plan.next());
    expect(new Set(traps.map((trap) => trap?.point))).toEqual(new Set(POINTS));
    expect(traps.every((trap) => trap?.nth === 1 && trap.turns === 0)).toBe(true);
    const repeatedPlan = new KillPlan(POINTS, new Random(7), () => 10);
    expect(POINTS.map(() => repeatedPlan.next())).toEqual(traps);
  });

  it('retries places that were not reached, and reports those that never were', () => {
    const plan = new KillPlan(POINTS, new Random(7), () => 10);
    for (let kill = 0; kill < 20; kill += 1) {
      const trap = plan.next();
      if (trap) plan.recordAttempt(trap, trap.point !== 'told' && kill >= POINTS.length);
    }
    expect([plan.reachedCount, plan.listMissing()]).toEqual([3, ['told']]);
  });
});

describe('the judge of a gateway whose server loses state', () => {
  it('reports nothing for a correct run', () => {
    expect(
      runJudge(
        [createOrder('a', 'ACCEPTED'), createOrder('b', 'NO_ANSWER')],
        [starting('a'), delivered('a'), starting('b'), sent],
      ),
    ).toEqual({ lost: [], doubled: [], wrong: [], converged: 1, unconfirmed: 1 });
  });

  it('reports duplicate deliveries, duplicate uplinks, missing items and wrong states', () => {
    expect(
      runJudge([createOrder('a', 'ACCEPTED')], [starting('a'), delivered('a'), delivered('a')], ['u1', 'u2']).doubled,
    ).toEqual(['a was carried out 2 times', 'the uplink meter-0 5 arrived with 2 different ids']);
    expect(runJudge([createOrder('a', undefined)], [{ ...sent, value: 6 }]).lost).toHaveLength(2);
    expect(
      runJudge([createOrder('a', 'ACCEPTED'), createOrder('b', 'NO_ANSWER'), createOrder('c', 'EXPIRED')], []).wrong,
    ).toHaveLength(3);
    expect(runJudge([createOrder('a', 'ACCEPTED')], [delivered('a')]).wrong).toEqual([
      'a was delivered before its start was stored',
    ]);
  });
});
