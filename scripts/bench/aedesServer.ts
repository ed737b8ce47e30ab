// The broker of the benchmarks for machines without Mosquitto, in a separate process. It supports MQTT 3.1.1 only.
import { createServer, type AddressInfo } from 'node:net';
import { Aedes } from 'aedes';

async function main(): Promise<void> {
  const broker = await Aedes.createBroker();
  const server = createServer(broker.handle);
  server.listen(0, '127.0.0.1', () => {
    const ready = { event: 'server.ready', grpc: `mqtt://127.0.0.1:${(server.address() as AddressInfo).port}` };
    process.stdout.write(`${JSON.stringify(ready)}\n`);
  });
}

void main();
