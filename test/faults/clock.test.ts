import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ClockMonitor } from '../../src/observability';
import type { DomainError } from '../../src/kernel/errors';
import { MemoryLog } from '../support/edge';
import { waitUntil } from '../support/waitUntil';
import { COMMANDS, DEVICES, getReason, startSite } from './site';

const [HOUR, DAY] = [3_600_000, 86_400_000];
const THEN = Date.UTC(2026, 10, 22);

describe('a clock that jumps', () => {
  let dataDir: string;
  let log: MemoryLog;
  let machine: { wall: number; running: number };
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'plantroom-clock-'));
    log = new MemoryLog();
    machine = { wall: THEN, running: 500 };
  });
  afterEach(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));

  const clock = { now: () => machine.wall, monotonic: () => machine.running };
  const boot = (more: Partial<ConstructorParameters<typeof ClockMonitor>[0]> = {}): ClockMonitor => {
    const memory = new ClockMonitor({ dataDir, clock, log, ...more });
    memory.start();
    return memory;
  };
  const pass = (milliseconds: number): void => {
    machine.wall += milliseconds;
    machine.running += milliseconds;
  };

  it('is followed while it is plausible: over months, an hour back and forth, and days off', async () => {
    const memory = boot();
    pass(90 * DAY);
    expect(memory.retentionClock.now()).toBe(THEN + 90 * DAY);
    machine.wall += HOUR;
    expect(memory.retentionClock.now()).toBe(THEN + 90 * DAY + HOUR);
    machine.wall -= HOUR;
    expect(memory.steadyClock.now()).toBe(THEN + 90 * DAY + HOUR);
    await memory.stop();
    machine = { wall: machine.wall + 2 * DAY, running: 0 };
    expect(boot().retentionClock.now()).toBe(machine.wall);
    expect(log.lines).toEqual([]);
  });

  it('ahead by an hour and back again is reported and followed, and readings keep their order', async () => {
    const site = await startSite(dataDir, { clock });
    const target = await site.createTarget();
    const gateway = site.openGateway();
    const times: number[] = [];
    const sendUplink = async (): Promise<void> => {
      gateway.uplink(`u${times.length}`);
      await gateway.next('uplinkAck');
      const { json } = await site.call(`${DEVICES}/GetDigitalDevice`, { id: target.deviceId });
      times.push(Date.parse(String(json['lastSeen'])));
    };
    await gateway.attach({ connectionId: target.connectionId });
    await sendUplink();
    machine.wall += HOUR;
    await sendUplink();
    machine.wall -= HOUR;
    await site.log.until('clock.ahead');
    expect(site.log.of('clock.ahead')).toMatchObject([
      { message: expect.stringContaining('3600 s ahead of it') as string },
    ]);
    const { json } = await site.call(`${COMMANDS}/ExecuteCommand`, {
      id: target.deviceId,
      commandId: target.commandId,
    });
    await gateway.next('command');
    pass(59_000); // a deadline is pending, so the time of the server keeps its speed
    await sendUplink();
    pass(1000);
    await site.log.until('executions.completed');
    await gateway.next('cancelCommand');
    const execution = await site.call(`${COMMANDS}/GetExecution`, { executionId: json['executionId'] });
    expect(execution.json).toMatchObject({ state: 'unconfirmed', detail: 'delivery_unconfirmed' });
    await waitUntil(() => {
      pass(60_000);
      return site.log.of('clock.caught_up').length > 0;
    });
    await sendUplink();
    expect(times).toEqual([THEN, THEN + HOUR, THEN + HOUR + 59_000, machine.wall]);
    expect(site.log.of('clock.moved_backwards')).toEqual([]);
    gateway.end();
    await site.stop();
  });

  it.each(['at the start', 'while it runs'])(
    'years ahead %s expires nothing, and all is well again when it is set',
    async (when) => {
      let memory = boot();
      pass(DAY);
      if (when === 'at the start') await memory.stop();
      machine.wall += 3650 * DAY;
      if (when === 'at the start') memory = boot();
      pass(HOUR);
      expect(memory.retentionClock.now()).toBe(THEN + DAY + HOUR);
      expect(log.of('clock.ahead')).toMatchObject([{ message: expect.stringContaining('clock.json') as string }]);
      await memory.stop(); // the clock of the process never goes back
      machine.wall -= 3650 * DAY;
      memory = boot();
      expect(memory.retentionClock.now()).toBe(machine.wall);
    },
  );

  it('years ahead is trusted after the server has run for seven days, with or without restarts, because a site may have been off', async () => {
    await boot().stop();
    machine.wall += 400 * DAY;
    for (let day = 0; day < 6; day += 1) {
      const memory = boot();
      for (let hour = 0; hour < 24; hour += 1) {
        pass(HOUR);
        memory.retentionClock.now();
      }
      await memory.stop();
    }
    const memory = boot();
    expect(memory.retentionClock.now()).toBeLessThan(machine.wall);
    pass(DAY);
    expect(memory.retentionClock.now()).toBe(machine.wall);
    expect(log.of('clock.jump_accepted')).toHaveLength(1);
  });

  it('into the past is replaced by the time that the server has seen, until it is set', async () => {
    const memory = boot();
    pass(10 * DAY);
    await memory.stop();
    machine.wall = 0;
    const again = boot();
    expect(again.retentionClock.now()).toBe(THEN + 10 * DAY);
    pass(HOUR);
    expect(again.steadyClock.now()).toBe(THEN + 10 * DAY + HOUR);
    machine.wall = THEN + 20 * DAY;
    expect(again.steadyClock.now()).toBe(THEN + 20 * DAY);
    expect(log.of('clock.behind')).toHaveLength(1);
  });

  it.each(['ahead at the start', 'ahead while it runs'])(
    'years ahead and is then corrected makes the server restart (%s)',
    async (when) => {
      await boot().stop();
      const { promise, resolve } = Promise.withResolvers<DomainError>();
      const ahead = (): number => (machine.wall += 3650 * DAY);
      if (when === 'ahead at the start') ahead();
      const memory = boot({ onMovedBackwards: resolve, checkIntervalMs: 1 });
      if (when === 'ahead while it runs') ahead();
      expect(memory.isUnreliable()).toBe(true);
      machine.wall -= 3650 * DAY;
      expect(await promise).toMatchObject({ kind: 'conflict', reason: 'clock_moved_backwards' });
      expect(log.of('clock.moved_backwards')).toHaveLength(1);
      await memory.stop();
      const again = boot({ onMovedBackwards: () => log.error({}, 'told_again'), checkIntervalMs: 1 });
      expect(again.retentionClock.now()).toBe(machine.wall);
      await again.stop();
    },
  );

  it('years ahead for over a day is not doubted any more: backups continue', async () => {
    await boot().stop();
    machine.wall += 3650 * DAY;
    const memory = boot();
    for (let hour = 0; hour < 25; hour += 1) {
      expect(memory.isUnreliable()).toBe(hour < 24);
      pass(HOUR);
    }
  });

  it('years ahead creates no certificate: the previous one stays valid when the clock is set', async () => {
    const flags = { 'tls.mode': 'auto' };
    const first = await startSite(dataDir, { clock, flags });
    await first.stop();
    const ends = (): string => new X509Certificate(readFileSync(join(dataDir, 'tls', 'server.pem'))).validTo;
    const before = ends();
    machine.wall += 3650 * DAY;
    const ahead = await startSite(dataDir, { clock, flags, key: first.key });
    expect(ahead.log.of('clock.ahead')).toHaveLength(1);
    await ahead.stop();
    expect(ends()).toBe(before);
  });

  it('is forgotten with a file without content', async () => {
    await boot().stop();
    expect(JSON.parse(readFileSync(join(dataDir, 'clock.json'), 'utf8'))).toEqual({ seen: THEN, heldMs: 0 });
    writeFileSync(join(dataDir, 'clock.json'), '{"seen":"never"}');
    machine.wall = THEN - 100 * DAY;
    expect(boot().retentionClock.now()).toBe(machine.wall);
  });

  it('to 1970 at the very first start is rejected: certificates created then would be expired when the clock is set', async () => {
    machine.wall = 5;
    await expect(startSite(dataDir, { clock })).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'clock_skew',
      message: expect.stringContaining('1970-01-01') as string,
    });
  });

  it('to 1970 at a start makes no expired key valid, and new records keep their order', async () => {
    const site = await startSite(dataDir, { clock });
    const whole = {
      scopes: ['devices:read', 'devices:write'],
      connectionIds: [],
      allConnections: false,
      ownerUserId: undefined,
      isAdmin: false,
    };
    const { key } = await site.app.keys.create(site.key.organizationId, {
      ...whole,
      name: 'short',
      expiresAt: THEN + HOUR,
    });
    const short = { ...site.key, text: key };
    await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Before' });
    pass(2 * HOUR);
    await site.stop();
    machine = { wall: 0, running: 0 };
    const expired = await startSite(dataDir, { clock, key: short });
    expect(getReason(await expired.call(`${DEVICES}/ListDigitalDevices`, {}))).toBe('api_key_expired');
    await expired.stop();
    const again = await startSite(dataDir, { clock, key: site.key });
    await again.call(`${DEVICES}/CreateDigitalDevice`, { name: 'After' });
    const { json } = await again.call(`${DEVICES}/ListDigitalDevices`, {});
    const created = (json['data'] ?? json['items'] ?? json['devices']) as { name: string; createdAt: string }[];
    expect(created.map(({ name }) => name)).toEqual(['After', 'Before']);
    expect(Date.parse(created[0]?.createdAt ?? '')).toBeGreaterThanOrEqual(THEN + 2 * HOUR);
    await again.stop();
  });
});
