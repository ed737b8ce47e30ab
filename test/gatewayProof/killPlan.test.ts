import { judgeForgetful } from '../../scripts/gatewayProof/judgeForgetful';
import { KillPlan } from '../../scripts/gatewayProof/killPlan';
import { Random } from '../../scripts/soak/random';

const POINTS = ['kept', 'sent', 'told', 'forgotten'] as const;

const ordered = (executionId: string, result: string | undefined) => ({ executionId, clientDeviceId: 'valve-1', n: 1, attempt: 2, isHeld: true, isAcknowledged: true, result });
const starting = (executionId: string) => ({ kind: 'starting', executionId }) as const;
const delivered = (executionId: string) => ({ kind: 'delivered', executionId, clientDeviceId: 'valve-1', payload: {}, at: 0 }) as const;
const sent = { kind: 'sent', clientDeviceId: 'meter-0', value: 5 } as const;

const judged = (commands: ReturnType<typeof ordered>[], world: Parameters<typeof judgeForgetful>[1], ids: string[] = ['u1']) =>
  judgeForgetful({ ordered: commands, wrong: [], uplinks: new Map([['meter-0 5', new Set(ids)]]) }, world, ['meter-0']);

describe('the plan of kills', () => {
  it('goes through every place at once when it is come to, in an order by the seed, before chance decides', () => {
    const plan = new KillPlan(POINTS, new Random(7), () => 10);
    const traps = POINTS.map(() => plan.next());
    expect(new Set(traps.map((trap) => trap?.point))).toEqual(new Set(POINTS));
    expect(traps.every((trap) => trap?.nth === 1 && trap.turns === 0)).toBe(true);
    const again = new KillPlan(POINTS, new Random(7), () => 10);
    expect(POINTS.map(() => again.next())).toEqual(traps);
  });

  it('tries again what was not reached, and says what never was', () => {
    const plan = new KillPlan(POINTS, new Random(7), () => 10);
    for (let kill = 0; kill < 20; kill += 1) {
      const trap = plan.next();
      if (trap) plan.tell(trap, trap.point !== 'told' && kill >= POINTS.length);
    }
    expect([plan.reachedCount, plan.missing()]).toEqual([3, ['told']]);
  });
});

describe('the judge of a gateway whose server forgets', () => {
  it('finds nothing where all is well', () => {
    expect(judged([ordered('a', 'ACCEPTED'), ordered('b', 'NO_ANSWER')], [starting('a'), delivered('a'), starting('b'), sent])).toEqual({ lost: [], doubled: [], wrong: [], converged: 1, unconfirmed: 1 });
  });

  it('finds what was done twice, came twice, is missing, or is not so', () => {
    expect(judged([ordered('a', 'ACCEPTED')], [starting('a'), delivered('a'), delivered('a')], ['u1', 'u2']).doubled).toEqual(['a was carried out 2 times', 'the uplink meter-0 5 came under 2 ids']);
    expect(judged([ordered('a', undefined)], [{ ...sent, value: 6 }]).lost).toHaveLength(2);
    expect(judged([ordered('a', 'ACCEPTED'), ordered('b', 'NO_ANSWER'), ordered('c', 'EXPIRED')], []).wrong).toHaveLength(3);
    expect(judged([ordered('a', 'ACCEPTED')], [delivered('a')]).wrong).toEqual(['a was delivered before that was kept']);
  });
});
