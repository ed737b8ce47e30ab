import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildSync } from 'esbuild';

const EXTERNAL = [
  'pg-native',
  'pg-query-stream',
  'mysql',
  'mysql2',
  'oracledb',
  'sqlite3',
  'tedious',
  'mariadb',
  'mariadb/callback',
  'cloudflare:sockets',
  'pino-pretty',
];

/** A TypeScript program in a separate process, bundled without node_modules, the way the product runs. */
export class Child {
  private output = '';
  private readonly process: ChildProcess;
  private readonly ended: Promise<void>;

  private constructor(folder: string, args: readonly string[]) {
    this.process = spawn(process.execPath, [join(folder, 'program.js'), ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.process.stdout, this.process.stderr])
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    process.once('exit', () => this.process.kill('SIGKILL')); // a test that failed before it could clean up
    this.ended = new Promise((ended) => this.process.once('close', () => ended()));
  }

  /** Starts a program. `source` imports from `./src/...`. */
  static start(source: string, args: readonly string[]): Child {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-child-'));
    cpSync(resolve('dist/assets'), join(folder, 'assets'), { recursive: true });
    buildSync({
      stdin: { contents: source, loader: 'ts', resolveDir: process.cwd() },
      bundle: true,
      platform: 'node',
      format: 'cjs',
      outfile: join(folder, 'program.js'),
      external: EXTERNAL,
      logLevel: 'silent',
    });
    const child = new Child(folder, args);
    void child.ended.then(() => rmSync(folder, { recursive: true, force: true }));
    return child;
  }

  /** Resolves with the output so far once it contains the text. Rejects if the program ends before. */
  async wrote(text: string): Promise<string> {
    const found = new Promise<void>((resolve) => {
      const checkOutput = (): void => (this.output.includes(text) ? resolve() : undefined);
      this.process.stdout?.on('data', checkOutput);
      checkOutput();
    });
    await Promise.race([found, this.ended]);
    if (!this.output.includes(text))
      throw new Error(`the child ended before it wrote ${JSON.stringify(text)}: ${this.output}`);
    return this.output;
  }

  /** Kills the program as a power cut would, and returns its complete output. */
  async kill(): Promise<string> {
    this.process.kill('SIGKILL');
    await this.ended;
    return this.output;
  }
}
