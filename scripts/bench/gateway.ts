import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import { AttachRequest, AttachResponse, CommandResultCode, GatewayStore, ResultOutcome, type Command, type UplinkAck } from '../../src/gen/gateway/v1/gateway_service';
import { newId } from '../../src/kernel/ids';
import { toTimestamp } from '../../src/kernel/timestamps';
import { target } from './fleet';
import { frame, open } from './load';
import type { Key, PlantroomServer } from './plantroomServer';

/** What the bench does when something comes from the server. */
export interface GatewayHooks {
  readonly command: (command: Command) => void;
  /** A result was taken; `applied`: it ended the execution. */
  readonly acknowledged: (executionId: string, applied: boolean) => void;
  /** What became of an uplink. */
  readonly uplinked?: (ack: UplinkAck) => void;
  /** Its stream has ended, in whatever way; what the server said. */
  readonly ended?: (said: string) => void;
}

/** Gateway software on node:http2, as lean as the client of load.ts: the machine's time goes to the server. */
export class Gateway {
  private rest: Buffer = Buffer.alloc(0);

  private constructor(
    private readonly session: ClientHttp2Session,
    private readonly stream: ClientHttp2Stream,
    private readonly hooks: GatewayHooks,
  ) {}

  /** Attaches; resolves when the server has welcomed it. */
  static async attach(server: PlantroomServer, key: Key, connectionId: string, hooks: GatewayHooks): Promise<Gateway> {
    const { path, headers, ...where } = target(server, key, '/gateway.v1.GatewayService/Attach');
    const session = await open(where);
    const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers });
    const gateway = new Gateway(session, stream, hooks);
    await new Promise<void>((resolve, reject) => {
      stream.on('data', (chunk: Buffer) => gateway.take(chunk, resolve));
      let said = 'nothing';
      stream.on('trailers', (trailers) => {
        said = `${String(trailers['grpc-status'])} ${String(trailers['grpc-message'])}`;
        reject(new Error(`the gateway was not taken: ${said}`));
      });
      stream.on('error', (error) => {
        said = error.message;
        reject(error);
      });
      stream.on('close', () => hooks.ended?.(said));
      gateway.send({ $case: 'hello', value: { connectionId, gatewayId: `bench-${newId()}`, bootId: newId(), store: GatewayStore.GATEWAY_STORE_VOLATILE, known: [], lowestProtocolVersion: 0, highestProtocolVersion: 0, software: '' } });
    });
    return gateway;
  }

  /** Says that it has the command. */
  received(executionId: string): void {
    this.send({ $case: 'commandReceived', value: { executionId, time: toTimestamp(Date.now()) } });
  }

  /** Says that the device has done it. */
  accepted(executionId: string): void {
    this.send({ $case: 'commandResult', value: { executionId, result: CommandResultCode.COMMAND_RESULT_CODE_ACCEPTED, code: '', message: '', time: toTimestamp(Date.now()) } });
  }

  /** A device sent values; the id that the answer will name. */
  uplink(clientDeviceId: string, values: Readonly<Record<string, unknown>>): string {
    const uplinkId = newId();
    this.send({ $case: 'uplink', value: { uplinkId, clientDeviceId, time: toTimestamp(Date.now()), payload: { $case: 'json', value: values }, fPort: undefined } });
    return uplinkId;
  }

  /** Ends its stream; resolves when the server has done so too. */
  async detach(): Promise<void> {
    const closed = new Promise((resolve) => this.stream.once('close', resolve));
    this.stream.end();
    await closed;
    this.session.close();
  }

  private send(message: NonNullable<AttachRequest['message']>): void {
    this.stream.write(frame(AttachRequest.encode({ message }).finish()));
  }

  private take(chunk: Buffer, welcomed: () => void): void {
    this.rest = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk]);
    for (let end = this.end(); end <= this.rest.length; end = this.end()) {
      const { message } = AttachResponse.decode(this.rest.subarray(5, end));
      this.rest = this.rest.subarray(end);
      if (message?.$case === 'welcome') welcomed();
      else if (message) this.heard(message);
    }
  }

  private heard(message: NonNullable<AttachResponse['message']>): void {
    if (message.$case === 'command') this.hooks.command(message.value);
    if (message.$case === 'commandResultAck') this.hooks.acknowledged(message.value.executionId, message.value.outcome === ResultOutcome.RESULT_OUTCOME_APPLIED);
    if (message.$case === 'uplinkAck') this.hooks.uplinked?.(message.value);
  }

  /** Where the message at the head of what has come ends. */
  private end(): number {
    return this.rest.length < 5 ? Infinity : 5 + this.rest.readUInt32BE(1);
  }
}
