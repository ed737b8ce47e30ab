import { spawnSync } from 'node:child_process';
import { reduceMemoryUse } from '../../src/cli/server/lowMemory';

const MIB = 1024 * 1024;

describe('the heap of a server', () => {
  it('uses the V8 default if memory is sufficient or its size is unknown', () => {
    expect([0, 1024 * MIB, Number.MAX_SAFE_INTEGER].map((allowed) => reduceMemoryUse(allowed))).toEqual([
      false,
      false,
      false,
    ]);
  });

  it('can be limited to small growth steps at run time: a runtime without the flag would report an error', () => {
    const script = "require('node:v8').setFlagsFromString('--optimize-for-size')";
    const { status, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
});
