import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import {
  AttachRequest,
  AttachResponse,
  CommandResultCode,
  GatewayStore,
  ResultOutcome,
  type Command,
  type UplinkAck,
} from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';
import { toLoadTarget } from './fleet';
import { frame, openSession } from './load';
import type { Key, PlantroomServer } from './plantroomServer';

/** Handlers for messages from the server. */
export interface GatewayHooks {
  readonly command: (command: Command) => void;
  /** The server acknowledged a result; `applied`: it ended the execution. */
  readonly acknowledged: (executionId: string, applied: boolean) => void;
  /** The server acknowledged an uplink. */
  readonly uplinkAcknowledged?: (ack: UplinkAck) => void;
  /** The stream ended; `reason`: the status of the server or the error. */
  readonly ended?: (reason: string) => void;
}

/** A minimal gateway on node:http2, like the client in load.ts, which leaves the CPU time to the server. */
export class Gateway {
  private buffered: Buffer = Buffer.alloc(0);

  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly stream: ClientHttp2Stream,
    private readonly hooks: GatewayHooks,
  ) {}

  /** Attaches; resolves when the server has sent Welcome. */
  static async attach(server: PlantroomServer, key: Key, connectionId: string, hooks: GatewayHooks): Promise<Gateway> {
    const { path, headers, ...endpoint } = toLoadTarget(server, key, '/gateway.v1.GatewayService/Attach');
    const session = await openSession(endpoint);
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    const gateway = new Gateway(session, stream, hooks);
    await new Promise<void>((resolve, reject) => {
      stream.on('data', (chunk: Buffer) => gateway.handleChunk(chunk, resolve));
      let reason = 'nothing';
      stream.on('trailers', (trailers) => {
        reason = `${String(trailers['grpc-status'])} ${String(trailers['grpc-message'])}`;
        reject(new Error(`the gateway was rejected: ${reason}`));
      });
      stream.on('error', (error) => {
        reason = error.message;
        reject(error);
      });
      stream.on('close', () => hooks.ended?.(reason));
      gateway.send({
        $case: 'hello',
        value: {
          connectionId,
          gatewayId: `bench-${newId()}`,
          bootId: newId(),
          store: GatewayStore.GATEWAY_STORE_VOLATILE,
          known: [],
          lowestProtocolVersion: 0,
          highestProtocolVersion: 0,
          software: '',
        },
      });
    });
    return gateway;
  }

  /** Confirms that the gateway has the command. */
  confirmCommand(executionId: string): void {
    this.send({ $case: 'commandReceived', value: { executionId, time: toTimestamp(Date.now()) } });
  }

  /** Reports that the device has carried out the command. */
  acceptCommand(executionId: string): void {
    this.send({
      $case: 'commandResult',
      value: {
        executionId,
        result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED,
        code: '',
        message: '',
        time: toTimestamp(Date.now()),
      },
    });
  }

  /** Sends values of a device, and returns the id of the uplink. */
  sendUplink(clientDeviceId: string, values: Readonly<Record<string, unknown>>): string {
    const uplinkId = newId();
    this.send({
      $case: 'uplink',
      value: {
        uplinkId,
        clientDeviceId,
        time: toTimestamp(Date.now()),
        payload: { $case: 'json', value: values },
        fPort: undefined,
      },
    });
    return uplinkId;
  }

  /** Closes the stream; resolves when the server has closed it too. */
  async detach(): Promise<void> {
    const closed = new Promise((resolve) => this.stream.once('close', resolve));
    this.stream.end();
    await closed;
    this.session.close();
  }

  private send(message: NonNullable<AttachRequest['message']>): void {
    this.stream.write(frame(AttachRequest.encode({ message }).finish()));
  }

  private handleChunk(chunk: Buffer, onWelcome: () => void): void {
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
    for (let end = this.findMessageEnd(); end <= this.buffered.length; end = this.findMessageEnd()) {
      const { message } = AttachResponse.decode(this.buffered.subarray(5, end));
      this.buffered = this.buffered.subarray(end);
      if (message?.$case === 'welcome') onWelcome();
      else if (message) this.handleMessage(message);
    }
  }

  private handleMessage(message: NonNullable<AttachResponse['message']>): void {
    if (message.$case === 'command') this.hooks.command(message.value);
    if (message.$case === 'commandResultAck')
      this.hooks.acknowledged(
        message.value.executionId,
        message.value.outcome === ResultOutcome.RESULT_OUTCOME_APPLIED,
      );
    if (message.$case === 'uplinkAck') this.hooks.uplinkAcknowledged?.(message.value);
  }

  /** Returns the end of the first buffered message; Infinity if its length is not known yet. */
  private findMessageEnd(): number {
    return this.buffered.length < 5 ? Infinity : 5 + this.buffered.readUInt32BE(1);
  }
}
