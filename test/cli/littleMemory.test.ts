import { spawnSync } from 'node:child_process';
import { spareMemory } from '../../src/cli/server/littleMemory';

const MIB = 1024 * 1024;

describe('the heap of a server', () => {
  it('grows as V8 likes where there is enough, or nobody knows how much there is', () => {
    expect([0, 1024 * MIB, Number.MAX_SAFE_INTEGER].map((allowed) => spareMemory(allowed))).toEqual([false, false, false]);
  });

  it('can be told to grow in small steps while the program runs: a runtime that knows the flag no more would say so', () => {
    const script = "require('node:v8').setFlagsFromString('--optimize-for-size')";
    const { status, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
