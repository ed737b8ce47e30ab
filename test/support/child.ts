import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { buildSync } from 'esbuild';

const EXTERNAL = ['pg-native', 'pg-query-stream', 'mysql', 'mysql2', 'oracledb', 'sqlite3', 'tedious', 'mariadb', 'mariadb/callback', 'cloudflare:sockets', 'pino-pretty'];

/** A TypeScript program in a process of its own, as a bundle without node_modules, the way the product runs. */
export class Child {
  private output = '';
  private readonly process: ChildProcess;
  private readonly ended: Promise<void>;

  private constructor(folder: string, args: readonly string[]) {
    this.process = spawn(process.execPath, [join(folder, 'program.js'), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [this.process.stdout, this.process.stderr]) stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    process.once('exit', () => this.process.kill('SIGKILL')); // a test that failed before it could
    this.ended = new Promise((ended) => this.process.once('close', () => ended()));
  }

  /** `source` imports from `./src/...`. */
  static start(source: string, args: readonly string[]): Child {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-child-'));
    cpSync(resolve('dist/assets'), join(folder, 'assets'), { recursive: true });
    buildSync({ stdin: { contents: source, loader: 'ts', resolveDir: process.cwd() }, bundle: true, platform: 'node', format: 'cjs', outfile: join(folder, 'program.js'), external: EXTERNAL, logLevel: 'silent' });
    const child = new Child(folder, args);
    void child.ended.then(() => rmSync(folder, { recursive: true, force: true }));
    return child;
  }

  /** Resolves once what it has written holds that; rejects if it ends before. */
  async wrote(text: string): Promise<void> {
    const seen = new Promise<void>((found) => {
      const look = (): void => (this.output.includes(text) ? found() : undefined);
      this.process.stdout?.on('data', look);
      look();
    });
    await Promise.race([seen, this.ended]);
    if (!this.output.includes(text)) throw new Error(`the child ended before it wrote ${JSON.stringify(text)}: ${this.output}`);
  }

  /** Ends it as a power cut would, and returns all that it wrote. */
  async kill(): Promise<string> {
    this.process.kill('SIGKILL');
    await this.ended;
    return this.output;
  }
}
