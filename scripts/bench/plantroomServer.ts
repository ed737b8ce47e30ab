import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { toCommand, ServerProcess } from './serverProcess';

const MAIN = join(__dirname, 'main.js');

/** An API key and its organization. */
export interface Key {
  readonly organizationId: string;
  readonly apiKey: string;
}

/** A temporary Plantroom server with its own data folder and process. */
export class PlantroomServer {
  private constructor(
    readonly folder: string,
    readonly process: ServerProcess,
    /** The key of the first start. */
    readonly key: Key,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  /**
   * Starts a server on a new folder, or on the folder of an earlier one. `isPinned`: it runs on one core. `program`:
   * another program than the server's. `launch`: a command that starts it instead, with its log in the folder.
   */
  static async start(
    env: NodeJS.ProcessEnv = {},
    {
      folder = mkdtempSync(join(tmpdir(), 'plantroom-')),
      isPinned = true,
      program = MAIN,
      launch = [] as readonly string[],
    } = {},
  ): Promise<PlantroomServer> {
    const keyFile = join(folder, 'key.json');
    const all = { ...createSettings(folder), PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile, ...env };
    const process =
      launch.length > 0
        ? await ServerProcess.run([...launch, 'serve'], all, join(folder, 'server.log'))
        : await ServerProcess.start(program, ['serve'], all, isPinned);
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

  /** The headers that a client sends with every call. */
  headers(key: Key = this.key): Record<string, string> {
    return { 'x-api-key': key.apiKey, 'x-organization-id': key.organizationId };
  }

  /** Creates another organization and a key with the given scopes, by the command line while the server runs. */
  createOrganization(name: string, scopes: readonly string[]): Key {
    const organization = this.runJsonCommand<{ id: string }>(['organizations', 'create', '--name', name]);
    const made = this.runJsonCommand<{ key: string }>([
      'keys',
      'create',
      '--organization',
      organization.id,
      '--name',
      'bench',
      '--scopes',
      scopes.join(','),
    ]);
    return { organizationId: organization.id, apiKey: made.key };
  }

  /** Runs a CLI command on all cores while the server runs; resolves with its output. */
  async runCommand(args: readonly string[]): Promise<string> {
    const [program = '', ...rest] = toCommand(MAIN, args, false);
    const child = spawn(program, rest, {
      env: { ...process.env, ...createSettings(this.folder), ...this.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')]);
    if (code !== 0) throw new Error(`plantroom ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  /** Stops the server and deletes its folder. */
  async remove(): Promise<void> {
    await this.process.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private runJsonCommand<Output>(args: readonly string[]): Output {
    const result = spawnSync(process.execPath, [MAIN, ...args, '--json'], {
      env: { ...process.env, ...createSettings(this.folder), ...this.env },
      encoding: 'utf8',
    });
    if (result.status !== 0) throw new Error(`plantroom ${args.join(' ')}: ${result.stderr}`);
    return JSON.parse(result.stdout) as Output;
  }
}

function createSettings(folder: string): NodeJS.ProcessEnv {
  return {
    PLANTROOM_DATA_DIR: join(folder, 'data'),
    PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
    PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
    PLANTROOM_METRICS_LISTEN: '127.0.0.1:0',
  };
}
