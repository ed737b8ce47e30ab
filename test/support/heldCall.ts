import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** Calls whose headers were sent, but not their message. */
export interface HeldCall {
  /** Sends the rest. Resolves with the status of the response, in the notation of its protocol. */
  finish(): Promise<string>;
  /** The status of a response that arrives before the rest is sent. */
  readonly answered: Promise<string>;
}

/** Holds a call over HTTP without TLS, a few bytes before the end of its body. */
export function holdHttp(
  address: string,
  route: string,
  fields: Readonly<Record<string, string>>,
  body: string,
): HeldCall {
  const socket = connect(Number(address.split(':').at(-1)), '127.0.0.1');
  const answered = text(socket).then((answer) => answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length));
  const lines = Object.entries({
    host: 'x',
    ...fields,
    'content-type': 'application/json',
    'content-length': body.length,
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`${route} HTTP/1.1\r\n${lines.join('')}\r\n${body.slice(0, 5)}`);
  const finish = async (): Promise<string> => {
    socket.write(body.slice(5));
    return await answered;
  };
  return { answered, finish };
}

/** Holds a call over gRPC without TLS, before its message. */
export function holdGrpc(
  address: string,
  path: string,
  fields: Readonly<Record<string, string>>,
  message: Uint8Array,
): HeldCall {
  const session = connectHttp2(`http://${address}`);
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    ...fields,
  });
  const closed = once(session, 'close');
  const receivedStatus = new Promise<string>((resolve) =>
    stream
      .on('response', (head) => head['grpc-status'] && resolve(String(head['grpc-status'])))
      .on('trailers', (tail) => resolve(String(tail['grpc-status']))),
  );
  const answered = receivedStatus.then(async (status) => {
    session.close();
    await closed;
    return status;
  });
  stream.on('error', () => {}).resume();
  const finish = async (): Promise<string> => {
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([head, message]));
    return await answered;
  };
  return { answered, finish };
}
