import { readFileSync } from 'node:fs';
import { connect, type TLSSocket } from 'node:tls';
import type { TestApp } from '../../support/testApp';

/**
 * Sends bytes over a separate TLS connection, piece by piece, and returns all that the server sends until it closes the
 * connection.
 */
export async function rawAnswer(server: TestApp, ...pieces: readonly (string | Buffer)[]): Promise<string> {
  const socket = open(server);
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  const closed = new Promise<string>((resolve) => {
    socket.on('error', () => resolve(text)); // the server closed the connection
    socket.on('close', () => resolve(text));
  });
  for (const piece of pieces) socket.write(piece);
  return await closed;
}

function open({ app }: TestApp): TLSSocket {
  const { hostname, port } = new URL(`http://${app.addresses.http}`);
  return connect({
    host: hostname,
    port: Number(port),
    ca: readFileSync(app.ca as string),
    ALPNProtocols: ['http/1.1'],
  });
}

/** Formats the head of an HTTP/1.1 request with these lines. */
export function head(verb: string, path: string, headers: Readonly<Record<string, string>>): string {
  return [
    `${verb} ${path} HTTP/1.1`,
    'host: localhost',
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    '',
    '',
  ].join('\r\n');
}
