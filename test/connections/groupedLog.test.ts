import { GroupedLog } from '../../src/connections/groupedLog';
import { MemoryLog } from '../support/edge';

const EVENT = 'mqtt.uplink_rejected';

describe('a log grouped by reason', () => {
  const log = new MemoryLog();
  let rejections: GroupedLog;

  beforeEach(() => {
    log.lines.splice(0);
    rejections = new GroupedLog(log, { connection_id: 'c-1' }, EVENT);
  });

  it('reports the first one immediately, and later ones by reason', () => {
    rejections.add({ topic: 'site/a/up', reason: 'payload_invalid: it is deep' });
    expect(log.of(EVENT)).toEqual([
      {
        connection_id: 'c-1',
        total: 1,
        reasons: [{ count: 1, topic: 'site/a/up', reason: 'payload_invalid: it is deep' }],
      },
    ]);
    rejections.add({ topic: 'site/b/up', reason: 'payload_too_large: it is 70000 bytes' });
    rejections.add({ topic: 'site/c/up', reason: 'payload_too_large: it is 80000 bytes' });
    rejections.add({ topic: 'site/d/up', reason: 'cannot_be_stored' });
    rejections.flush();
    const reasons = [
      { count: 2, topic: 'site/b/up', reason: 'payload_too_large: it is 70000 bytes' },
      { count: 1, topic: 'site/d/up', reason: 'cannot_be_stored' },
    ];
    expect(log.of(EVENT)[1]).toEqual({ connection_id: 'c-1', total: 4, reasons });
  });

  it('reports messages even if no more follow, and only once', async () => {
    rejections = new GroupedLog(log, {}, EVENT, 1);
    rejections.add({ topic: 'site/a/up', reason: 'cannot_be_stored' });
    rejections.add({ topic: 'site/b/up', reason: 'payload_invalid: it is deep' });
    await log.until(EVENT, 2);
    rejections.flush();
    expect(log.of(EVENT)).toMatchObject([{ total: 1 }, { total: 2, reasons: [{ topic: 'site/b/up' }] }]);
  });

  it('writes at most two lines at a time for any number of messages', () => {
    for (let n = 0; n < 1000; n++)
      rejections.add({ topic: `site/${n}/up`, reason: `reason_${n % 7}: ${'x'.repeat(1000)}` });
    rejections.flush();
    const [first, second] = log.of(EVENT) as {
      total: number;
      reasons: { count: number; reason: string }[];
      other_reasons?: number;
    }[];
    expect(first?.total).toBe(1);
    expect(second?.reasons).toHaveLength(5);
    expect((second?.reasons ?? []).reduce((sum, { count }) => sum + count, second?.other_reasons ?? 0)).toBe(999);
    expect(second?.reasons[0]?.reason.length).toBeLessThan(256);
    expect(log.lines).toHaveLength(2);
  });
});
