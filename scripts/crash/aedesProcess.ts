import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { createAedesBroker } from './aedesBroker';

/**
 * An aedes broker in a separate process that can be killed, for machines without Mosquitto. It restarts on the same port
 * without its former state.
 */
export class AedesProcess {
  private port = 0;
  private child: ChildProcess | undefined;

  private constructor() {}

  static async start(): Promise<AedesProcess> {
    const broker = new AedesProcess();
    await broker.restart();
    return broker;
  }

  get url(): string {
    return `mqtt://127.0.0.1:${this.port}`;
  }

  async restart(): Promise<void> {
    const child = spawn(process.execPath, [process.argv[1] as string, 'broker', String(this.port)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const [port] = (await once(child, 'message')) as [number];
    this.child = child;
    this.port = port;
  }

  /** Kills the process with SIGKILL; resolves when it has exited. */
  async kill(): Promise<void> {
    const { child } = this;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** Kills the process. It has no files to delete. */
  async remove(): Promise<void> {
    await this.kill();
  }
}

/** Runs the broker on a port (0: any free port) until its parent process ends. */
export async function serveBroker(port: number): Promise<void> {
  process.on('disconnect', () => process.exit(0));
  const aedes = await createAedesBroker();
  const server = createServer((socket) => aedes.handle(socket));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  process.send?.((server.address() as AddressInfo).port);
}
