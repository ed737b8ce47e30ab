import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { commandOf, ServerProcess } from './serverProcess';

const MAIN = join(__dirname, 'main.js');

/** A key and the organization that it works in. */
export interface Key {
  readonly organizationId: string;
  readonly apiKey: string;
}

/** A throw-away Plantroom: its own data folder, its own process. */
export class PlantroomServer {
  private constructor(
    readonly folder: string,
    readonly process: ServerProcess,
    /** The key of the first start. */
    readonly key: Key,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  /** Starts on a new folder, or again on the folder of an earlier one. `isPinned`: has one core. `program`: another one than the server's; `launch`: started by these words instead, with its log in the folder. */
  static async start(env: NodeJS.ProcessEnv = {}, { folder = mkdtempSync(join(tmpdir(), 'plantroom-')), isPinned = true, program = MAIN, launch = [] as readonly string[] } = {}): Promise<PlantroomServer> {
    const keyFile = join(folder, 'key.json');
    const all = { ...settings(folder), PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile, ...env };
    const process = launch.length > 0 ? await ServerProcess.run([...launch, 'serve'], all, join(folder, 'server.log')) : await ServerProcess.start(program, ['serve'], all, isPinned);
    return new PlantroomServer(folder, process, JSON.parse(readFileSync(keyFile, 'utf8')) as Key, env);
  }

  get url(): string {
    return `${this.ca ? 'https' : 'http'}://${this.process.ready.grpc.replace('0.0.0.0', '127.0.0.1')}`;
  }

  /** `host:port` for clients of gRPC. */
  get address(): string {
    return `localhost:${new URL(this.url).port}`;
  }

  /** PEM of the CA; undefined without TLS. */
  get ca(): Buffer | undefined {
    return this.process.ready.ca ? readFileSync(this.process.ready.ca) : undefined;
  }

  /** What a client sends with every call. */
  headers(key: Key = this.key): Record<string, string> {
    return { 'x-api-key': key.apiKey, 'x-organization-id': key.organizationId };
  }

  /** Another organization with a key of the given scopes, made by the command line beside the running server. */
  organization(name: string, scopes: readonly string[]): Key {
    const organization = this.command<{ id: string }>(['organizations', 'create', '--name', name]);
    const made = this.command<{ key: string }>(['keys', 'create', '--organization', organization.id, '--name', 'bench', '--scopes', scopes.join(',')]);
    return { organizationId: organization.id, apiKey: made.key };
  }

  /** Runs a command of the command line beside the server, which goes on answering; resolves with what it wrote. Has all cores. */
  async beside(args: readonly string[]): Promise<string> {
    const [program = '', ...rest] = commandOf(MAIN, args, false);
    const child = spawn(program, rest, { env: { ...process.env, ...settings(this.folder), ...this.env }, stdio: ['ignore', 'pipe', 'pipe'] });
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    if (code !== 0) throw new Error(`plantroom ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  /** Stops it and removes its folder. */
  async remove(): Promise<void> {
    await this.process.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private command<Answer>(args: readonly string[]): Answer {
    const result = spawnSync(process.execPath, [MAIN, ...args, '--json'], { env: { ...process.env, ...settings(this.folder), ...this.env }, encoding: 'utf8' });
    if (result.status !== 0) throw new Error(`plantroom ${args.join(' ')}: ${result.stderr}`);
    return JSON.parse(result.stdout) as Answer;
  }
}

function settings(folder: string): NodeJS.ProcessEnv {
  return { PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_GRPC_LISTEN: '127.0.0.1:0', PLANTROOM_HTTP_LISTEN: '127.0.0.1:0', PLANTROOM_METRICS_LISTEN: '127.0.0.1:0' };
}
