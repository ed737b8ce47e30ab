import { computeExpiry } from '../../../src/client/gateway/commands/deadline';
import { ServerClock } from '../../../src/client/gateway/commands/serverClock';
import { findMachineStart } from '../../../src/client/gateway/machineClock';
import { Command } from '../../../src/client/gen/gateway/v1/gateway_service';

const DAY = 86_400_000;

const command = (leftAt: number, validMs: number): Command =>
  Command.fromPartial({
    deadline: new Date(leftAt + validMs),
    expiresIn: { seconds: Math.trunc(validMs / 1000), nanos: (validMs % 1000) * 1e6 },
  });
const stat = (startedAt: number): string =>
  `1 (a (very) odd name) S 0 0 0 0 -1 4194560 72437 132261738 0 4230 403 2572 509463 89993 10 -10 13 0 ${startedAt} 48840704 4277`;
const getStart = (files: Readonly<Record<string, string>>): string | undefined =>
  findMachineStart((file) => files[file]);

describe('the deadline of a command', () => {
  let now = 0;
  const clock = { machineStart: 'start-1', earliest: () => now, latest: () => now };
  let server: ServerClock;

  beforeEach(() => {
    now = 5000;
    server = new ServerClock();
    server.observe(1_000_000, now);
  });

  it('follows the server however late it is read: because of the network, or because the process was paused', () => {
    now = 6000;
    expect(computeExpiry(command(1_001_000, 2500), clock, server)).toBe(8500);
    now = 15_000;
    expect(computeExpiry(command(1_001_500, 2500), clock, server)).toBeLessThan(9020);
    now = 15_100;
    expect(computeExpiry(command(1_010_100, 2500), clock, server)).toBeCloseTo(17_600, -2);
  });

  it('is at most its expires_in from now, regardless of the server clock', () => {
    now = 6000;
    expect(computeExpiry(command(9_000_000, 1000), clock, server)).toBe(7000);
    expect(
      computeExpiry(Command.fromPartial({ expiresIn: { seconds: 1, nanos: 500_000_000 } }), clock, new ServerClock()),
    ).toBe(7500);
  });

  it('follows clocks that drift apart over days', () => {
    for (let day = 1; day <= 30; day += 1) {
      now = 5000 + day * DAY * 1.0001;
      expect(computeExpiry(command(1_000_000 + day * DAY, 60_000), clock, server)).toBe(now + 60_000);
    }
  });

  it('has passed if none is given', () => {
    expect(computeExpiry(Command.fromPartial({}), clock, server)).toBe(0);
    expect(computeExpiry(Command.fromPartial({ deadline: new Date(1_060_000) }), clock, new ServerClock())).toBe(0);
  });
});

describe('the machine boot ID', () => {
  const machine = {
    '/proc/sys/kernel/random/boot_id': 'boot-1\n',
    '/proc/self/timens_offsets': 'monotonic           0         0\nboottime            0         0\n',
    '/proc/self/mountinfo': '22 1 0:5 / /proc rw - proc proc rw\n',
    '/proc/1/stat': stat(24),
  };
  const lxcfs = {
    ...machine,
    '/proc/self/mountinfo':
      '22 1 0:5 / /proc rw - proc proc rw\n90 22 0:40 /proc/uptime /proc/uptime rw - fuse.lxcfs lxcfs rw\n',
  };

  it('is that of the kernel, also in a restarted container without its own uptime', () => {
    expect([
      getStart(machine),
      getStart({ ...machine, '/proc/1/stat': stat(99) }),
      getStart({ '/proc/sys/kernel/random/boot_id': 'boot-1' }),
    ]).toEqual(['boot-1', 'boot-1', 'boot-1']);
  });

  it('is that of the container if it has its own uptime', () => {
    const offset = {
      ...machine,
      '/proc/self/timens_offsets': 'monotonic           0         0\nboottime        -2000         0\n',
    };
    expect(
      new Set([getStart(machine), getStart(offset), getStart(lxcfs), getStart({ ...lxcfs, '/proc/1/stat': stat(99) })])
        .size,
    ).toBe(4);
  });

  it('is unknown if the system hides what distinguishes its boots', () => {
    expect([getStart({}), getStart({ ...lxcfs, '/proc/1/stat': '' })]).toEqual([undefined, undefined]);
  });
});
