import { type ChildProcess, spawn } from 'node:child_process';
import { pbkdf2Sync, randomBytes } from 'node:crypto';
import { existsSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

/** Options of a broker. By default it stores sessions on disk, allows everything to all clients, and has no TLS. */
export interface MosquittoOptions {
  /** Names with their passwords. If given, no other clients are accepted. */
  readonly users?: Readonly<Record<string, string>>;
  /** Lines of an ACL file. */
  readonly acl?: readonly string[];
  /** PEM text. With `clientCa` clients must present a certificate of that CA. */
  readonly tls?: { readonly ca: string; readonly cert: string; readonly key: string; readonly clientCa?: string };
  /** Opens a second port for WebSocket. */
  readonly webSocket?: boolean;
  /** Additional lines of mosquitto.conf. */
  readonly lines?: readonly string[];
  /** Additional lines of mosquitto.conf about the port. */
  readonly listenerLines?: readonly string[];
}

// The shell waits on a pipe from the test: when the test ends in any way, even by kill -9, the broker stops and its
// folder is removed.
const KEEPER =
  '"$@" & pid=$!; echo $pid; (read -r end <&3; kill -9 $pid; rm -rf "$PWD") >/dev/null 2>&1 & wait $pid; code=$?; kill $!; exit $code';

/**
 * A real Mosquitto in a separate process, with its files in a separate folder. It keeps its port and its sessions over
 * restarts.
 */
export class Mosquitto {
  private keeper: ChildProcess | undefined;
  private pid = 0;
  private log = '';

  private constructor(
    private readonly program: string,
    private readonly folder: string,
    readonly port: number,
    private readonly webSocketPort: number | undefined,
    private readonly scheme: 'mqtt' | 'mqtts',
  ) {}

  /** Starts a broker. Throws an error that says what to do if Mosquitto is missing or does not start. */
  static async start(options: MosquittoOptions = {}): Promise<Mosquitto> {
    const program = findMosquitto();
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-mosquitto-'));
    const [port, webSocketPort] = [await freePort(), options.webSocket ? await freePort() : undefined];
    const broker = new Mosquitto(program, folder, port, webSocketPort, options.tls ? 'mqtts' : 'mqtt');
    writeFiles(folder, port, webSocketPort, options);
    await broker.restart();
    return broker;
  }

  /** The URL on which it listens. */
  get url(): string {
    return `${this.scheme}://localhost:${this.port}`;
  }

  /** The URL on which it listens for WebSocket. Throws if WebSocket is not enabled. */
  get webSocketUrl(): string {
    if (this.webSocketPort === undefined) throw new Error('start it with webSocket: true');
    return `ws://localhost:${this.webSocketPort}`;
  }

  /** The output so far, over all its starts. */
  get output(): string {
    return this.log;
  }

  /** Starts it again on the same port with the data on its disk. */
  async restart(): Promise<void> {
    const user = nobodyIfRoot();
    this.keeper = spawn('/bin/sh', ['-c', KEEPER, 'keeper', this.program, '-c', join(this.folder, 'mosquitto.conf')], {
      ...user,
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
    const { promise: listening, resolve } = Promise.withResolvers<void>();
    this.keeper.stdout?.on('data', (chunk: Buffer) => {
      this.pid = Number.parseInt(chunk.toString(), 10);
      resolve();
    });
    this.keeper.stderr?.on('data', (chunk: Buffer) => (this.log += chunk.toString()));
    await listening;
    await this.listens();
  }

  /** Stops it gracefully, so that it stores its sessions. */
  async stop(): Promise<void> {
    await this.end('SIGTERM');
  }

  /** Kills it as a power cut would. */
  async kill(): Promise<void> {
    await this.end('SIGKILL');
  }

  /** Makes it write its sessions to disk now. */
  writeSessions(): void {
    process.kill(this.pid, 'SIGUSR1');
  }

  /** Stops it permanently and removes its files. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const { keeper } = this;
    if (keeper?.exitCode !== null) return;
    const ended = new Promise<void>((resolve) => keeper.once('close', () => resolve()));
    process.kill(this.pid, signal);
    await ended;
  }

  private async listens(): Promise<void> {
    while (this.keeper?.exitCode === null) {
      if ((await isOpen(this.port)) && (this.webSocketPort === undefined || (await isOpen(this.webSocketPort)))) return;
      await pause(10); // there is no event for the port of another process
    }
    throw new Error(`mosquitto did not start: ${this.log}`);
  }
}

/**
 * Finds the program: MOSQUITTO, or one of PATH, or where Debian installs it. Throws an error that says what to install.
 */
export function findMosquitto(): string {
  const folders = [
    ...(process.env['PATH'] ?? '').split(delimiter),
    '/usr/sbin',
    '/usr/local/sbin',
    '/opt/homebrew/sbin',
  ];
  const found = [process.env['MOSQUITTO'] ?? '', ...folders.map((folder) => join(folder, 'mosquitto'))].find(
    (file) => file !== '' && existsSync(file),
  );
  if (found === undefined)
    throw new Error(
      'there is no Mosquitto on this machine, and these tests need a real one: install it (Debian: apt-get install mosquitto), or name the program in MOSQUITTO',
    );
  return found;
}

function writeFiles(folder: string, port: number, webSocketPort: number | undefined, options: MosquittoOptions): void {
  const user = nobodyIfRoot();
  const write = (name: string, lines: readonly string[]): string => {
    const file = join(folder, name);
    writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600 });
    if (user) chownSync(file, user.uid, user.gid);
    return file;
  };
  const { users, acl, tls, lines = [], listenerLines = [] } = options;
  const all = [
    'persistence true',
    `persistence_location ${folder}/`,
    'log_dest stderr',
    'log_type all',
    `allow_anonymous ${users === undefined}`,
    ...lines,
  ];
  if (users)
    all.push(
      `password_file ${write(
        'passwords',
        Object.entries(users).map(([name, password]) => `${name}:${hashPassword(password)}`),
      )}`,
    );
  if (acl) all.push(`acl_file ${write('acl', acl)}`);
  all.push(`listener ${port} 127.0.0.1`, ...listenerLines);
  if (tls) all.push(`certfile ${write('cert.pem', [tls.cert])}`, `keyfile ${write('key.pem', [tls.key])}`);
  if (tls?.clientCa) all.push(`cafile ${write('clients.pem', [tls.clientCa])}`, 'require_certificate true');
  if (webSocketPort !== undefined) all.push(`listener ${webSocketPort} 127.0.0.1`, 'protocol websockets');
  write('mosquitto.conf', all);
  if (user) chownSync(folder, user.uid, user.gid);
}

/** Hashes a password as mosquitto_passwd does: PBKDF2 with SHA-512. */
function hashPassword(password: string): string {
  const salt = randomBytes(12);
  return `$7$101$${salt.toString('base64')}$${pbkdf2Sync(password, salt, 101, 64, 'sha512').toString('base64')}`;
}

/** Returns the user `nobody` of this machine, or undefined if the tests do not run as root. */
function nobodyIfRoot(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const [, , uid, gid] =
    readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .find((line) => line.startsWith('nobody:'))
      ?.split(':') ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const { promise, resolve } = Promise.withResolvers<boolean>();
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
  const answer = await promise;
  socket.destroy();
  return answer;
}
