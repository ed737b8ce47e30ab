import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildSync } from 'esbuild';

/**
 * The program of the child: opens the store and writes until it is killed. Prints a line for every write that has
 * resolved.
 */
const PROGRAM = `
import { writeSync } from 'node:fs';
import { sqliteStore } from './src/client/gateway/store/sqliteStore';
import { StoreWriter } from './src/client/gateway/store/storeWriter';

const [file, name] = process.argv.slice(2);
const say = (line) => writeSync(1, line + '\\n');
const store = sqliteStore(file);
try {
  store.open({ connectionId: 'con_1', gatewayId: 'gw-1' });
} catch (error) {
  say('refused ' + error.reason);
  process.exit(1);
}
const writer = new StoreWriter({ store, onFailing: (error) => say('failing ' + error.message), onRecovered: () => {} });
const command = (executionId, stage) => ({ kind: 'command', command: { executionId, stage, message: Buffer.alloc(300, 1), expiresAtUptimeMs: 1, machineStart: 's', time: 1, result: stage === 'ended' ? 1 : 0, code: '', text: '' } });

async function uplinks(lane) {
  for (let at = 0; ; at += 1) {
    const uplinkId = [name, lane, at].join('-');
    await writer.write({ kind: 'uplink', uplink: { uplinkId, message: Buffer.alloc(at % 50 === 0 ? 60000 : 200, 1) } });
    say('kept ' + uplinkId);
    if (at % 3 === 0) {
      writer.writeLater({ kind: 'uplink_acknowledged', uplinkId });
      say('forgotten ' + uplinkId);
    }
  }
}

async function commands(lane) {
  for (let at = 0; ; at += 1) {
    const id = [name, lane, at].join('-');
    for (const stage of ['received', 'started', 'ended']) {
      await writer.write(command(id, stage));
      say(stage + ' ' + id);
    }
  }
}

say('open');
for (let lane = 0; lane < 8; lane += 1) {
  void uplinks('u' + lane);
  void commands('c' + lane);
}
`;

/** A process that writes into a store. */
export class StoreChild {
  private output = '';
  private readonly ended: Promise<void>;

  private constructor(private readonly child: ChildProcess) {
    this.ended = new Promise((ended) => child.once('close', () => ended()));
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    process.once('exit', () => child.kill('SIGKILL')); // A failed test may not have killed the child.
  }

  /** Resolves when the child has written this many lines, or has exited. */
  async waitForLines(lines: number): Promise<void> {
    const reached = new Promise<void>((found) => {
      const checkOutput = (): void => (this.lines().length >= lines ? found() : undefined);
      this.child.stdout?.on('data', checkOutput);
      checkOutput();
    });
    await Promise.race([reached, this.ended]);
  }

  /** Kills the child during its work. Returns its output. */
  async kill(): Promise<readonly string[]> {
    this.child.kill('SIGKILL');
    await this.ended;
    return this.lines();
  }

  /** Returns the output of a child that exits on its own. */
  async waitForExit(): Promise<readonly string[]> {
    await this.ended;
    return this.lines();
  }

  static run(program: string, args: readonly string[]): StoreChild {
    return new StoreChild(
      spawn(process.execPath, [program, ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, NODE_PATH: resolve('node_modules') },
      }),
    );
  }

  private lines(): readonly string[] {
    return this.output.split('\n').slice(0, -1);
  }
}

/** Builds the program of the child, once for a test file. */
export function buildStoreChild(): {
  readonly start: (file: string, name: string) => StoreChild;
  readonly remove: () => void;
} {
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-store-child-'));
  const program = join(folder, 'program.js');
  buildSync({
    stdin: { contents: PROGRAM, loader: 'ts', resolveDir: process.cwd() },
    bundle: true,
    platform: 'node',
    format: 'cjs',
    outfile: program,
    external: ['better-sqlite3'],
    logLevel: 'silent',
  });
  return {
    start: (file, name) => StoreChild.run(program, [file, name]),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
