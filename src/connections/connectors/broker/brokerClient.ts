import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import { connect as connectMqtt, type IClientOptions, type MqttClient } from 'mqtt';
import { PacedStream } from './pacedStream';
import type { MqttPacketSizeScanner } from './mqttPacketSizeScanner';

/**
 * How far a connection got before the first MQTT packet: `reached`: only TCP is connected and TLS must follow;
 * `secured`: everything before MQTT is done.
 */
export type ConnectProgress = 'reached' | 'secured';

/**
 * The share of the connect timeout for the name look-up and the TCP connection. A host without a response to them is
 * unreachable, and the next attempt soon finds out whether it is back.
 */
const TCP_SHARE = 0.5;

/** A client of the MQTT library for one network connection, and the stream that the library reads. */
interface BrokerClient {
  readonly client: MqttClient;
  readonly stream: PacedStream;
}

/**
 * Starts to connect. Throws if a key or certificate is invalid. `packetSizeScanner`: scans the received data before the
 * library receives it. `onProgress`: called at each step of the progress.
 */
export function openBrokerClient(
  options: IClientOptions,
  packetSizeScanner: MqttPacketSizeScanner,
  onProgress: (progress: ConnectProgress) => void,
): BrokerClient {
  const tcpTimeoutMs = (options.connectTimeout ?? 0) * TCP_SHARE;
  const client = connectMqtt({ ...options, manualConnect: true });
  // The library builds a stream for each kind of address. This is its only place where another stream can be inserted.
  const buildStream = client['streamBuilder'];
  client['streamBuilder'] = (mqttClient: MqttClient) => {
    const inner = buildStream(mqttClient) as Duplex;
    if (inner instanceof Socket) inner.setNoDelay(true); // small packets must not wait for each other's acknowledgement
    if (inner instanceof Socket) limitConnectTime(inner, tcpTimeoutMs);
    inner.once('connect', () => onProgress(inner instanceof TLSSocket ? 'reached' : 'secured'));
    inner.once('secureConnect', () => onProgress('secured'));
    return new PacedStream(inner, packetSizeScanner);
  };
  client.connect();
  return { client, stream: client.stream as PacedStream };
}

/** Destroys a socket that is not connected over TCP in time, with the error of a connection that timed out. */
function limitConnectTime(socket: Socket, limitMs: number): void {
  const error = Object.assign(new Error('the TCP connection timed out'), { code: 'ETIMEDOUT' });
  const timer = setTimeout(() => socket.destroy(error), limitMs);
  socket.once('connect', () => clearTimeout(timer));
  socket.once('close', () => clearTimeout(timer));
}
