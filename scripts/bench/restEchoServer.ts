// The REST baseline server: bare fastify, which responds with the JSON of GET device from a file. Prints its port.
import { readFileSync } from 'node:fs';
import fastify from 'fastify';

const [file = '', folder] = process.argv.slice(2);
const response = JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, unknown>>;
const secure = folder
  ? {
      https: {
        cert: readFileSync(`${folder}/server.pem`),
        key: readFileSync(`${folder}/server-key.pem`),
        minVersion: 'TLSv1.2' as const,
      },
    }
  : {};
const app = fastify({ logger: false, ...secure });
app.get<{ Params: { id: string } }>('/api/v2/devices/:id', (request, reply) =>
  reply.send({ ...response, id: request.params.id }),
);
void app
  .listen({ host: '127.0.0.1', port: 0 })
  .then((address) =>
    process.stdout.write(`${JSON.stringify({ event: 'server.ready', http: new URL(address).host })}\n`),
  );
process.on('SIGTERM', () => process.exit(0));
