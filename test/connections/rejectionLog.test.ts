import { RejectionLog } from '../../src/connections/connectors/mqtt/rejectionLog';
import { MemoryLog } from '../support/edge';

const EVENT = 'mqtt.uplink_rejected';

describe('the log of permanent rejections', () => {
  const log = new MemoryLog();
  let rejections: RejectionLog;

  beforeEach(() => {
    log.lines.splice(0);
    rejections = new RejectionLog(log, { connection_id: 'c-1' });
  });

  it('reports the first one immediately, and later ones by reason', () => {
    rejections.add('site/a/up', 'payload_invalid: it is deep');
    expect(log.of(EVENT)).toEqual([
      {
        connection_id: 'c-1',
        rejected: 1,
        reasons: [{ count: 1, topic: 'site/a/up', reason: 'payload_invalid: it is deep' }],
      },
    ]);
    rejections.add('site/b/up', 'payload_too_large: it is 70000 bytes');
    rejections.add('site/c/up', 'payload_too_large: it is 80000 bytes');
    rejections.add('site/d/up', 'cannot_be_stored');
    rejections.flush();
    const reasons = [
      { count: 2, topic: 'site/b/up', reason: 'payload_too_large: it is 70000 bytes' },
      { count: 1, topic: 'site/d/up', reason: 'cannot_be_stored' },
    ];
    expect(log.of(EVENT)[1]).toEqual({ connection_id: 'c-1', rejected: 4, reasons });
  });

  it('reports rejections even if no more follow, and only once', async () => {
    rejections = new RejectionLog(log, {}, EVENT, 1);
    rejections.add('site/a/up', 'cannot_be_stored');
    rejections.add('site/b/up', 'payload_invalid: it is deep');
    await log.until(EVENT, 2);
    rejections.flush();
    expect(log.of(EVENT)).toMatchObject([{ rejected: 1 }, { rejected: 2, reasons: [{ topic: 'site/b/up' }] }]);
  });

  it('writes at most two lines at a time for any number of rejections', () => {
    for (let n = 0; n < 1000; n++) rejections.add(`site/${n}/up`, `reason_${n % 7}: ${'x'.repeat(1000)}`);
    rejections.flush();
    const [first, second] = log.of(EVENT) as {
      rejected: number;
      reasons: { count: number; reason: string }[];
      other_reasons?: number;
    }[];
    expect(first?.rejected).toBe(1);
    expect(second?.reasons).toHaveLength(5);
    expect((second?.reasons ?? []).reduce((sum, { count }) => sum + count, second?.other_reasons ?? 0)).toBe(999);
    expect(second?.reasons[0]?.reason.length).toBeLessThan(256);
    expect(log.lines).toHaveLength(2);
  });
});
