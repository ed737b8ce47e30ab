import { once } from 'node:events';
import { Duplex } from 'node:stream';
import { MqttPacketSizeScanner } from '../../src/connections/connectors/broker/mqttPacketSizeScanner';
import { PacedStream } from '../../src/connections/connectors/broker/pacedStream';

const NO_LIMIT = (): void => {};

/** Creates a network connection that accepts writes only if `accepts`, and the stream on it, which is read. */
function connect({ accepts = true } = {}): { inner: Duplex; stream: PacedStream } {
  const inner = new Duplex({
    read: () => {},
    write: (_chunk, _encoding, done) => (accepts ? done() : undefined),
    writableHighWaterMark: 1,
  });
  const stream = new PacedStream(inner, new MqttPacketSizeScanner(NO_LIMIT));
  stream.resume();
  return { inner, stream };
}

describe('the stream of a broker connection', () => {
  it('closes when something is written between the end of the connection and its processing', async () => {
    const { inner, stream } = connect();
    inner.once('end', () => inner.destroy());
    inner.once('close', () => stream.write('late'));
    inner.push(null);
    await once(stream, 'close');
    expect(stream.destroyed).toBe(true);
  });

  it('closes when the connection ends while it accepts no more data', async () => {
    const { inner, stream } = connect({ accepts: false });
    stream.write('waits');
    inner.once('end', () => inner.destroy());
    inner.push(null);
    await once(stream, 'close');
    expect(stream.destroyed).toBe(true);
  });
});
