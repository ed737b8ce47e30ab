import { ConcurrencyLimiter } from '../../src/telemetry/decoding/concurrencyLimiter';
import { DecoderScripts } from '../../src/telemetry/decoding/decoderScripts';
import { type DecoderRun, OverrunTracker } from '../../src/telemetry/decoding/overrunTracker';
import { TestClock } from '../support/testClock';

/** Starts work that finishes when the test ends it. */
function createHeldWork(gate: ConcurrencyLimiter) {
  const began: string[] = [];
  const ends = new Map<string, (failure?: Error) => void>();
  const start = async (row: string, name: string): Promise<string> =>
    await gate.run(row, async () => {
      began.push(name);
      await new Promise<void>((resolve, reject) =>
        ends.set(name, (failure) => (failure ? reject(failure) : resolve())),
      );
      return name;
    });
  return { began, start, end: (name: string, failure?: Error) => ends.get(name)?.(failure) };
}

/** Resolves after all pending promise callbacks have run. */
const settled = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

describe('the concurrency limiter of the sandbox', () => {
  it('admits work of one key up to its limit, in order, and alternates between keys', async () => {
    const { began, start, end } = createHeldWork(new ConcurrencyLimiter({ perKey: 2, total: 3 }));
    const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map(async (name) => await start(name.charAt(0), name));
    await settled();
    expect(began).toEqual(['a1', 'a2', 'b1']);
    end('a1');
    await settled();
    expect(began).toEqual(['a1', 'a2', 'b1', 'a3']);
    end('a2');
    await settled();
    expect(began.at(-1)).toBe('b2');
    end('a3');
    await settled();
    expect(began.at(-1)).toBe('c1');
    for (const name of ['b1', 'b2', 'c1']) end(name);
    await settled();
    end('a4');
    expect(await Promise.all(all)).toEqual(['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1']);
  });

  it('gives the slot of failed work to the next in line', async () => {
    const { began, start, end } = createHeldWork(new ConcurrencyLimiter({ perKey: 1, total: 1 }));
    const first = start('a', 'a1');
    const second = start('a', 'a2');
    await settled();
    end('a1', new Error('lost'));
    await expect(first).rejects.toThrow('lost');
    await settled();
    expect(began).toEqual(['a1', 'a2']);
    end('a2');
    expect(await second).toBe('a2');
  });
});

let uplinks = 0;
/** Describes a run of a decoder with a new uplink. */
const run = (device: string, decoder = 'd'): DecoderRun => ({
  decoder,
  device,
  uplink: `uplink-${(uplinks += 1)}`,
  mayBeRepetition: true,
});

describe('decoders that overrun', () => {
  let clock: TestClock;
  let overruns: OverrunTracker;
  beforeEach(() => {
    clock = new TestClock();
    overruns = new OverrunTracker(clock);
  });
  const recordOverrun = (device: string, ms = 100): void => overruns.addOverrun(run(device), ms);
  /** Records an overrun of each device, then a success of another device. */
  const recordTurn = (devices: readonly string[], ms: number): void => {
    for (const device of devices) recordOverrun(device, ms);
    overruns.addSuccess(run('z'));
  };
  const isSuspended = (device: string): boolean => overruns.getSuspensionMs(run(device)) > 0;

  it('are suspended for one device after three overruns in a row, and only for that device', () => {
    recordOverrun('x');
    recordOverrun('x');
    overruns.addSuccess(run('x'));
    expect(overruns.isSuspect(run('x'))).toBe(false);
    for (let times = 0; times < 2; times += 1) recordOverrun('x');
    expect([overruns.isSuspect(run('x')), overruns.getSuspensionMs(run('x'))]).toEqual([true, 0]);
    recordOverrun('x');
    expect(overruns.getSuspensionMs(run('x'))).toBeGreaterThan(59_000);
    for (let times = 0; times < 50; times += 1) recordOverrun('x');
    expect([
      overruns.getSuspensionMs(run('y')),
      overruns.isSuspect(run('y')),
      overruns.getSuspensionMs(run('x', 'other')),
    ]).toEqual([0, false, 0]);
    clock.advance(60_001);
    expect(overruns.getSuspensionMs(run('x'))).toBe(0);
    recordOverrun('x');
    expect(overruns.getSuspensionMs(run('x'))).toBeGreaterThan(59_000);
    clock.advance(60_001);
    overruns.addSuccess(run('x'));
    recordOverrun('x');
    expect(overruns.getSuspensionMs(run('x'))).toBe(0);
  });

  it('are suspended for a device after more than 3 s of overruns in a minute, even with successes in between', () => {
    for (let times = 0; times < 3; times += 1) {
      recordOverrun('x', 1000);
      overruns.addSuccess(run('x'));
    }
    expect(isSuspended('x')).toBe(false);
    recordOverrun('x', 1);
    expect([isSuspended('x'), isSuspended('y')]).toEqual([true, false]);
    for (let minute = 0; minute < 3; minute += 1) {
      clock.advance(60_001);
      overruns.addSuccess(run('x'));
      recordOverrun('x', 2999);
      overruns.addSuccess(run('x'));
      expect(isSuspended('x')).toBe(false);
    }
  });

  it('count a repeated uplink once, and count each uplink of a transport that reuses its identifiers', () => {
    const same = run('x');
    for (let times = 0; times < 5; times += 1) overruns.addOverrun(same, 2000);
    expect(isSuspended('x')).toBe(false);
    const delivery = { ...run('y'), uplink: '7 digest', mayBeRepetition: false };
    overruns.addOverrun(delivery, 100);
    for (let times = 0; times < 5; times += 1) overruns.addOverrun({ ...delivery, mayBeRepetition: true }, 100);
    expect(isSuspended('y')).toBe(false);
    for (let times = 0; times < 2; times += 1) overruns.addOverrun(delivery, 100);
    expect(isSuspended('y')).toBe(true);
  });

  it('are suspended for all devices after overruns of three different devices without a success in between', () => {
    recordOverrun('x');
    recordOverrun('y');
    overruns.addSuccess(run('z'));
    recordOverrun('v');
    recordOverrun('w');
    expect(isSuspended('z')).toBe(false);
    recordOverrun('x');
    expect([isSuspended('z'), overruns.getSuspensionMs(run('z', 'other'))]).toEqual([true, 0]);
  });

  it('are suspended for all devices after more than 9 s of overruns by three different devices in a minute, even with successes in between', () => {
    recordTurn(['v', 'w'], 2900);
    clock.advance(30_000);
    recordTurn(['v', 'w'], 2900);
    expect(isSuspended('z')).toBe(false); // Two devices are suspended individually.
    clock.advance(30_001);
    recordTurn(['x', 'y'], 1500);
    expect(isSuspended('z')).toBe(false); // The first overruns are a minute old.
    recordTurn(['x'], 300);
    expect(isSuspended('z')).toBe(true);
  });

  it('are suspended for all devices a second time only after three different devices overran, not because of one device', () => {
    for (const device of ['a', 'b', 'c']) recordOverrun(device);
    for (let minute = 0; minute < 5; minute += 1) {
      clock.advance(60_001);
      recordOverrun('a');
      expect([isSuspended('a'), isSuspended('innocent')]).toEqual([minute >= 1, false]);
    }
    recordOverrun('b');
    expect(isSuspended('innocent')).toBe(false);
    recordOverrun('c');
    expect(isSuspended('innocent')).toBe(true);
    for (const device of ['a', 'b', 'c']) recordOverrun(device); // These runs started before the suspension.
    clock.advance(60_001);
    recordOverrun('e');
    expect(isSuspended('innocent')).toBe(false);
  });

  it('are forgotten after five minutes', () => {
    for (const device of ['a', 'b', 'c', 'd']) {
      recordOverrun(device);
      clock.advance(300_001);
    }
    for (let times = 0; times < 4; times += 1) {
      expect(overruns.isSuspect(run('a'))).toBe(false);
      recordOverrun('a');
      clock.advance(300_001);
    }
    expect([isSuspended('a'), isSuspended('innocent')]).toEqual([false, false]);
  });

  it('are tracked in a bounded amount of memory', () => {
    for (let at = 0; at < 10_001; at += 1) overruns.addOverrun(run(`x${at}`, `d${at}`), 1);
    expect([overruns.isSuspect(run('x0', 'd0')), overruns.isSuspect(run('x1', 'd1'))]).toEqual([false, true]);
  });
});

describe('decoder scripts', () => {
  it('are loaded once per change, even for parallel requests', async () => {
    const reads: string[] = [];
    const scripts = new DecoderScripts(async (codecId) => {
      reads.push(codecId);
      await settled();
      return `${codecId} ${reads.length}`;
    });
    const first = { codecId: 'a', hash: '1' };
    expect(
      await Promise.all([first, first, { codecId: 'b', hash: '1' }].map(async (named) => await scripts.find(named))),
    ).toEqual(['a 2', 'a 2', 'b 2']);
    expect([
      await scripts.find(first),
      await scripts.find({ codecId: 'a', hash: '2' }),
      await scripts.find({ codecId: 'a', hash: '2' }),
    ]).toEqual(['a 2', 'a 3', 'a 3']);
    expect(reads).toEqual(['a', 'b', 'a']);
  });

  it('are loaded again after a failure, and the cache stays bounded', async () => {
    const reads: string[] = [];
    let isAway = true;
    const scripts = new DecoderScripts(async (codecId) => {
      reads.push(codecId);
      if (isAway) throw new Error('away');
      return codecId === 'none' ? undefined : 'x'.repeat(40);
    }, 100);
    const find = async (codecId: string): Promise<string | undefined> => await scripts.find({ codecId, hash: '1' });
    await expect(find('a')).rejects.toThrow('away');
    isAway = false;
    for (const codecId of ['a', 'b', 'a', 'none', 'none', 'c', 'a']) await find(codecId);
    expect(reads).toEqual(['a', 'a', 'b', 'none', 'c']);
    await find('b');
    expect(reads.at(-1)).toBe('b');
  });
});
