import { Rejections } from '../../src/connections/connectors/mqtt/rejections';
import { MemoryLog } from '../support/edge';

const EVENT = 'mqtt.uplink_rejected';

describe('what can never be stored', () => {
  const log = new MemoryLog();
  let rejections: Rejections;

  beforeEach(() => {
    log.lines.splice(0);
    rejections = new Rejections(log, { connection_id: 'c-1' });
  });

  it('is told at once when it is the first, then by reason', () => {
    rejections.add('site/a/up', 'payload_invalid: it is deep');
    expect(log.of(EVENT)).toEqual([{ connection_id: 'c-1', rejected: 1, reasons: [{ count: 1, topic: 'site/a/up', reason: 'payload_invalid: it is deep' }] }]);
    rejections.add('site/b/up', 'payload_too_large: it is 70000 bytes');
    rejections.add('site/c/up', 'payload_too_large: it is 80000 bytes');
    rejections.add('site/d/up', 'cannot_be_stored');
    rejections.end();
    const reasons = [
      { count: 2, topic: 'site/b/up', reason: 'payload_too_large: it is 70000 bytes' },
      { count: 1, topic: 'site/d/up', reason: 'cannot_be_stored' },
    ];
    expect(log.of(EVENT)[1]).toEqual({ connection_id: 'c-1', rejected: 4, reasons });
  });

  it('is told although no more comes, and then no more', async () => {
    rejections = new Rejections(log, {}, EVENT, 1);
    rejections.add('site/a/up', 'cannot_be_stored');
    rejections.add('site/b/up', 'payload_invalid: it is deep');
    await log.until(EVENT, 2);
    rejections.end();
    expect(log.of(EVENT)).toMatchObject([{ rejected: 1 }, { rejected: 2, reasons: [{ topic: 'site/b/up' }] }]);
  });

  it('takes two lines at most at a time, however much of it comes', () => {
    for (let n = 0; n < 1000; n++) rejections.add(`site/${n}/up`, `reason_${n % 7}: ${'x'.repeat(1000)}`);
    rejections.end();
    const [first, second] = log.of(EVENT) as { rejected: number; reasons: { count: number; reason: string }[]; other_reasons?: number }[];
    expect(first?.rejected).toBe(1);
    expect(second?.reasons).toHaveLength(5);
    expect((second?.reasons ?? []).reduce((sum, { count }) => sum + count, second?.other_reasons ?? 0)).toBe(999);
    expect(second?.reasons[0]?.reason.length).toBeLessThan(256);
    expect(log.lines).toHaveLength(2);
  });
});
