import { join } from 'node:path';
import { Mosquitto } from '../../test/support/mosquitto';
import { ServerProcess } from './serverProcess';

/** A broker in a separate process. */
export interface BenchBroker {
  readonly name: string;
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts Mosquitto with an unlimited queue, or aedes if Mosquitto is not installed. */
export async function startBroker(): Promise<BenchBroker> {
  try {
    const mosquitto = await Mosquitto.start({ lines: ['max_queued_messages 0', 'set_tcp_nodelay true'] });
    return { name: 'Mosquitto', url: mosquitto.url, stop: async () => await mosquitto.remove() };
  } catch {
    const aedes = await ServerProcess.start(join(__dirname, 'bench-broker.js'), [], {}, false);
    return { name: 'aedes', url: aedes.ready.grpc, stop: async () => await aedes.stop() };
  }
}
