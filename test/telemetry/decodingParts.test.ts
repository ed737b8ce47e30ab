import { DecodeGate } from '../../src/telemetry/decoding/decodeGate';
import { DecoderScripts } from '../../src/telemetry/decoding/decoderScripts';
import { type DecoderRun, Overruns } from '../../src/telemetry/decoding/overruns';
import { TestClock } from '../support/testClock';

/** Work that ends when the test says so. */
function heldWork(gate: DecodeGate) {
  const began: string[] = [];
  const ends = new Map<string, (failure?: Error) => void>();
  const start = async (row: string, name: string): Promise<string> =>
    await gate.pass(row, async () => {
      began.push(name);
      await new Promise<void>((resolve, reject) => ends.set(name, (failure) => (failure ? reject(failure) : resolve())));
      return name;
    });
  return { began, start, end: (name: string, failure?: Error) => ends.get(name)?.(failure) };
}

/** Lets everything go on that can. */
const settled = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

describe('the gate before the sandbox', () => {
  it('lets a row in up to its limit, in order, and the rows by turns', async () => {
    const { began, start, end } = heldWork(new DecodeGate({ each: 2, all: 3 }));
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

  it('gives the place of work that failed to the next', async () => {
    const { began, start, end } = heldWork(new DecodeGate({ each: 1, all: 1 }));
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
/** With a new uplink. */
const run = (device: string, decoder = 'd'): DecoderRun => ({ decoder, device, uplink: `uplink-${(uplinks += 1)}`, isRepetition: true });

describe('decoders that overrun', () => {
  let clock: TestClock;
  let overruns: Overruns;
  beforeEach(() => {
    clock = new TestClock();
    overruns = new Overruns(clock);
  });
  const overran = (device: string, ms = 100): void => overruns.overran(run(device), ms);
  /** With each of them, then a good one with another. */
  const turn = (devices: readonly string[], ms: number): void => {
    for (const device of devices) overran(device, ms);
    overruns.ended(run('z'));
  };
  const rests = (device: string): boolean => overruns.restMs(run(device)) > 0;

  it('rest for the device after three times in a row, and for that one alone', () => {
    overran('x');
    overran('x');
    overruns.ended(run('x'));
    expect(overruns.isSuspect(run('x'))).toBe(false);
    for (let times = 0; times < 2; times += 1) overran('x');
    expect([overruns.isSuspect(run('x')), overruns.restMs(run('x'))]).toEqual([true, 0]);
    overran('x');
    expect(overruns.restMs(run('x'))).toBeGreaterThan(59_000);
    for (let times = 0; times < 50; times += 1) overran('x');
    expect([overruns.restMs(run('y')), overruns.isSuspect(run('y')), overruns.restMs(run('x', 'other'))]).toEqual([0, false, 0]);
    clock.advance(60_001);
    expect(overruns.restMs(run('x'))).toBe(0);
    overran('x');
    expect(overruns.restMs(run('x'))).toBeGreaterThan(59_000);
    clock.advance(60_001);
    overruns.ended(run('x'));
    overran('x');
    expect(overruns.restMs(run('x'))).toBe(0);
  });

  it('rest for the device after more than 3 s of a minute, whatever was decoded between', () => {
    for (let times = 0; times < 3; times += 1) {
      overran('x', 1000);
      overruns.ended(run('x'));
    }
    expect(rests('x')).toBe(false);
    overran('x', 1);
    expect([rests('x'), rests('y')]).toEqual([true, false]);
    for (let minute = 0; minute < 3; minute += 1) {
      clock.advance(60_001);
      overruns.ended(run('x'));
      overran('x', 2999);
      overruns.ended(run('x'));
      expect(rests('x')).toBe(false);
    }
  });

  it('count an uplink that comes again once, and each of a transport that uses its names again', () => {
    const same = run('x');
    for (let times = 0; times < 5; times += 1) overruns.overran(same, 2000);
    expect(rests('x')).toBe(false);
    const delivery = { ...run('y'), uplink: '7 digest', isRepetition: false };
    overruns.overran(delivery, 100);
    for (let times = 0; times < 5; times += 1) overruns.overran({ ...delivery, isRepetition: true }, 100);
    expect(rests('y')).toBe(false);
    for (let times = 0; times < 2; times += 1) overruns.overran(delivery, 100);
    expect(rests('y')).toBe(true);
  });

  it('rest for all devices after three different ones, if none was decoded between', () => {
    overran('x');
    overran('y');
    overruns.ended(run('z'));
    overran('v');
    overran('w');
    expect(rests('z')).toBe(false);
    overran('x');
    expect([rests('z'), overruns.restMs(run('z', 'other'))]).toEqual([true, 0]);
  });

  it('rest for all devices after more than 9 s of a minute with three different ones, whatever was decoded between', () => {
    turn(['v', 'w'], 2900);
    clock.advance(30_000);
    turn(['v', 'w'], 2900);
    expect(rests('z')).toBe(false); // two devices rest for themselves
    clock.advance(30_001);
    turn(['x', 'y'], 1500);
    expect(rests('z')).toBe(false); // the first are a minute old
    turn(['x'], 300);
    expect(rests('z')).toBe(true);
  });

  it('rest for all again only after three different ones once more: not for what one device sends', () => {
    for (const device of ['a', 'b', 'c']) overran(device);
    for (let minute = 0; minute < 5; minute += 1) {
      clock.advance(60_001);
      overran('a');
      expect([rests('a'), rests('innocent')]).toEqual([minute >= 1, false]);
    }
    overran('b');
    expect(rests('innocent')).toBe(false);
    overran('c');
    expect(rests('innocent')).toBe(true);
    for (const device of ['a', 'b', 'c']) overran(device); // what began before the rest
    clock.advance(60_001);
    overran('e');
    expect(rests('innocent')).toBe(false);
  });

  it('are forgotten after five minutes', () => {
    for (const device of ['a', 'b', 'c', 'd']) {
      overran(device);
      clock.advance(300_001);
    }
    for (let times = 0; times < 4; times += 1) {
      expect(overruns.isSuspect(run('a'))).toBe(false);
      overran('a');
      clock.advance(300_001);
    }
    expect([rests('a'), rests('innocent')]).toEqual([false, false]);
  });

  it('do not grow without end', () => {
    for (let at = 0; at < 10_001; at += 1) overruns.overran(run(`x${at}`, `d${at}`), 1);
    expect([overruns.isSuspect(run('x0', 'd0')), overruns.isSuspect(run('x1', 'd1'))]).toEqual([false, true]);
  });
});

describe('the scripts of decoders', () => {
  it('are read once for each change, also by many at once', async () => {
    const reads: string[] = [];
    const scripts = new DecoderScripts(async (codecId) => {
      reads.push(codecId);
      await settled();
      return `${codecId} ${reads.length}`;
    });
    const first = { codecId: 'a', hash: '1' };
    expect(await Promise.all([first, first, { codecId: 'b', hash: '1' }].map(async (named) => await scripts.find(named)))).toEqual(['a 2', 'a 2', 'b 2']);
    expect([await scripts.find(first), await scripts.find({ codecId: 'a', hash: '2' }), await scripts.find({ codecId: 'a', hash: '2' })]).toEqual(['a 2', 'a 3', 'a 3']);
    expect(reads).toEqual(['a', 'b', 'a']);
  });

  it('are read again after a failure, and kept within bounds', async () => {
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
