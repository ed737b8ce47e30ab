import { type ClientDuplexStream, type ServiceError, status } from '@grpc/grpc-js';
import {
  type GatewayServiceClient,
  GatewayStore,
  type KnownStatus,
  ResultOutcome,
  UplinkOutcome,
  type AttachRequest,
  type AttachResponse,
  type Command,
  type CommandResultAck,
  type UplinkAck,
} from '../../../gen/gateway/v1/gateway_service';
import { toTimestamp } from '../../../kernel/timestamps';
import { metadataOf } from '../../call/target';
import { wireErrorOf, type WireError } from '../../call/wireError';
import type { HeldCommand } from './gatewayMemory';
import type { SimulatorOptions } from './simulatorOptions';

/** What comes in on a stream. */
export interface AttachmentHooks {
  readonly welcome: (maxInFlight: number) => void;
  readonly command: (command: Command) => void;
  readonly withdraw: (executionId: string) => void;
  readonly resultAcknowledged: (executionId: string, outcome: string) => void;
  readonly uplinkAcknowledged: (uplinkId: string, outcome: string, reason: string) => void;
}

type Sent = NonNullable<AttachRequest['message']>;

/** One Attach stream. */
export class Attachment {
  /** Resolves when the stream has ended, with what the server said; undefined: it ended in peace. */
  readonly ended: Promise<WireError | undefined>;
  private readonly call: ClientDuplexStream<AttachRequest, AttachResponse>;

  constructor(client: GatewayServiceClient, options: SimulatorOptions, bootId: string, hooks: AttachmentHooks) {
    this.call = client.attach(metadataOf(options));
    this.ended = new Promise((resolve) => {
      this.call.on('error', (error: ServiceError) => resolve(error.code === status.CANCELLED ? undefined : wireErrorOf(error)));
      this.call.on('end', () => resolve(undefined));
    });
    this.call.on('data', ({ message }: AttachResponse) => deliver(message, hooks));
    const store = options.volatile ? GatewayStore.GATEWAY_STORE_VOLATILE : GatewayStore.GATEWAY_STORE_DURABLE;
    this.send({ $case: 'hello', value: { connectionId: options.connectionId, gatewayId: options.gatewayId, bootId, store, known: options.memory.open().map(knownCommand), lowestProtocolVersion: 0, highestProtocolVersion: 0, software: '' } });
  }

  /** What cannot leave any more is sent again on the next stream. */
  send(message: Sent): void {
    if (this.call.writable) this.call.write({ message });
  }

  /** Ends the stream in peace; cuts it if the server does not follow within 2 s. */
  close(): void {
    const timer = setTimeout(() => this.call.cancel(), 2000);
    void this.ended.then(() => clearTimeout(timer));
    this.call.end();
  }
}

function deliver(message: AttachResponse['message'], hooks: AttachmentHooks): void {
  switch (message?.$case) {
    case 'welcome':
      return hooks.welcome(message.value.maxInFlight);
    case 'command':
      return hooks.command(message.value);
    case 'withdraw':
      return hooks.withdraw(message.value.executionId);
    case 'commandResultAck':
      return hooks.resultAcknowledged(message.value.executionId, resultOutcome(message.value));
    case 'uplinkAck':
      return hooks.uplinkAcknowledged(message.value.uplinkId, uplinkOutcome(message.value), message.value.reason);
    case undefined: // a newer server says something that this gateway does not know yet
  }
}

function knownCommand({ executionId, result, code, message, time }: HeldCommand): { executionId: string; status: KnownStatus; code: string; message: string; time: ReturnType<typeof toTimestamp> } {
  // KnownStatus is RECEIVED (1), then the codes of CommandResultCode in their order.
  return { executionId, status: result === undefined ? 1 : result + 1, code, message, time: toTimestamp(time) };
}

const resultOutcome = ({ outcome }: CommandResultAck): string => (ResultOutcome[outcome] ?? 'unknown').replace('RESULT_OUTCOME_', '').toLowerCase();
const uplinkOutcome = ({ outcome }: UplinkAck): string => (UplinkOutcome[outcome] ?? 'unknown').replace('UPLINK_OUTCOME_', '').toLowerCase();
