import { DecodeGate } from '../../src/telemetry/decoding/decodeGate';
import { DecoderScripts } from '../../src/telemetry/decoding/decoderScripts';
import { Overruns } from '../../src/telemetry/decoding/overruns';
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

const run = (device: string, decoder = 'd') => ({ decoder, device });

describe('decoders that overrun', () => {
  it('rest for the device after three times in a row, and for that one alone', () => {
    const clock = new TestClock();
    const overruns = new Overruns(clock);
    overruns.overran(run('x'));
    overruns.overran(run('x'));
    overruns.ended(run('x'));
    expect(overruns.isSuspect(run('x'))).toBe(false);
    for (let times = 0; times < 2; times += 1) overruns.overran(run('x'));
    expect([overruns.isSuspect(run('x')), overruns.restMs(run('x'))]).toEqual([true, 0]);
    overruns.overran(run('x'));
    expect(overruns.restMs(run('x'))).toBeGreaterThan(59_000);
    for (let times = 0; times < 50; times += 1) overruns.overran(run('x'));
    expect([overruns.restMs(run('y')), overruns.isSuspect(run('y')), overruns.restMs(run('x', 'other'))]).toEqual([0, false, 0]);
    clock.advance(60_001);
    expect(overruns.restMs(run('x'))).toBe(0);
    overruns.overran(run('x'));
    expect(overruns.restMs(run('x'))).toBeGreaterThan(59_000);
    clock.advance(60_001);
    overruns.ended(run('x'));
    overruns.overran(run('x'));
    expect(overruns.restMs(run('x'))).toBe(0);
  });

  it('rest for all devices after three different ones, if none was decoded between', () => {
    const overruns = new Overruns(new TestClock());
    overruns.overran(run('x'));
    overruns.overran(run('y'));
    overruns.ended(run('z'));
    overruns.overran(run('v'));
    overruns.overran(run('w'));
    expect(overruns.restMs(run('z'))).toBe(0);
    overruns.overran(run('x'));
    expect([overruns.restMs(run('z')) > 0, overruns.restMs(run('z', 'other'))]).toEqual([true, 0]);
  });

  it('do not grow without end', () => {
    const overruns = new Overruns(new TestClock());
    for (let at = 0; at < 10_001; at += 1) overruns.overran(run(`x${at}`, `d${at}`));
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
