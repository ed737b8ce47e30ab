import type { ClientHttp2Session } from 'node:http2';
import {
  StreamReadingsRequest,
  StreamReadingsResponse,
  type Reading,
} from '../../src/gen/sensorquery/v1/sensor_query_service';
import { toLoadTarget } from './fleet';
import { frame, openSession } from './load';
import type { PlantroomServer } from './plantroomServer';

/** Streams new readings of some sensors with a minimal client on node:http2. */
export class ReadingTail {
  private buffered: Buffer = Buffer.alloc(0);

  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly onReading: (reading: Reading) => void,
  ) {}

  /** Resolves when the stream has started. At most 200 sensors. */
  static async open(
    server: PlantroomServer,
    sensorIds: readonly string[],
    onReading: (reading: Reading) => void,
  ): Promise<ReadingTail> {
    const { path, headers, ...endpoint } = toLoadTarget(
      server,
      server.key,
      '/sensorquery.v1.SensorQueryService/StreamReadings',
    );
    const session = await openSession(endpoint);
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const tail = new ReadingTail(session, onReading);
    await new Promise<void>((resolve, reject) => {
      stream.on('data', (chunk: Buffer) => tail.handleChunk(chunk, resolve));
      stream.on('trailers', (trailers) =>
        reject(new Error(`the stream of readings ended: ${String(trailers['grpc-message'])}`)),
      );
      stream.on('error', reject);
      stream.end(
        frame(StreamReadingsRequest.encode(StreamReadingsRequest.fromPartial({ sensorIds: [...sensorIds] })).finish()),
      );
    });
    return tail;
  }

  close(): void {
    this.session.destroy();
  }

  private handleChunk(chunk: Buffer, onStart: () => void): void {
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
    while (this.buffered.length >= 5 && this.buffered.length >= 5 + this.buffered.readUInt32BE(1)) {
      const end = 5 + this.buffered.readUInt32BE(1);
      const { readings } = StreamReadingsResponse.decode(this.buffered.subarray(5, end));
      this.buffered = this.buffered.subarray(end);
      onStart();
      for (const reading of readings) this.onReading(reading);
    }
  }
}
