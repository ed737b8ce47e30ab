import type {
  AttachRequest,
  AttachResponse,
  CommandReceived,
  CommandResult,
  Uplink,
} from '../../../gen/gateway/v1/gateway_service';
import { DomainError, validationFailed } from '../../../kernel/errors';
import { UUID } from '../../../kernel/ids';
import type { Logger } from '../../../kernel/logger';
import type { MonotonicTimestamps } from '../../monotonicTimestamps';
import type { ConnectorEvents, Evidence, EvidenceOutcome, UplinkMessage } from '../../connector';
import type { ConnectionStatuses } from '../../connectionStatuses';
import { formatBytesExample, formatJsonExample } from '../../dataWarning';
import { DataWarningReporter } from '../../dataWarningReporter';
import { reportOutcome } from '../../uplinkWarnings';
import {
  toReceiptEvidence,
  toRejectedResultEvidence,
  toResultEvidence,
  createMessageRejection,
  createResultAck,
  createResultRejection,
  createUplinkAck,
} from './gatewayMessages';
import { getClockId, type GatewaySession } from './gatewaySession';
import { GATEWAY } from './gatewayType';
import { UplinkBackpressure } from './uplinkBackpressure';
import { findRejection } from './invalidMessages';
import { readUplink } from './uplinkReader';

/** The options of GatewayInbox. */
interface GatewayInboxOptions {
  readonly events: ConnectorEvents;
  readonly statuses: ConnectionStatuses;
  readonly arrivals: MonotonicTimestamps;
  readonly log: Logger;
}

type CreateRejection = (executionId: string, reason: string) => AttachResponse;

/** The maximum length of an execution id in a message. */
const MAX_ID_LENGTH = 128;

/**
 * Processes the messages of an attached gateway, and acknowledges each one after it is stored. The messages of a device
 * are processed in order.
 */
export class GatewayInbox {
  /** Stores uplinks. While the disk is full, it does not acknowledge them, so that the gateway keeps them. */
  private readonly backpressure: UplinkBackpressure;
  private readonly dataWarnings: DataWarningReporter;

  constructor(
    private readonly session: GatewaySession,
    private readonly options: GatewayInboxOptions,
  ) {
    const { log, statuses } = options;
    const fields = this.getLogFields();
    this.backpressure = new UplinkBackpressure(session, { log, fields });
    const connection = { id: session.identity.connectionId, connectorId: GATEWAY.id };
    this.dataWarnings = new DataWarningReporter({ connection, statuses, log, fields });
  }

  /**
   * Reads until the gateway has sent its last message or the session ended. Throws `validation_failed` for messages
   * that are not allowed here.
   */
  async readAll(requests: AsyncIterator<AttachRequest, unknown>): Promise<void> {
    for (let next = await requests.next(); next.done !== true && !this.session.isEnded; next = await requests.next()) {
      this.options.statuses.markMessageReceived(this.session.identity.connectionId);
      await this.handleMessage(next.value.message);
    }
  }

  /** Logs what is not logged yet. Call it when all messages are processed. */
  flushLog(): void {
    this.dataWarnings.flush();
  }

  /** Starts processing a message; waits only while too many are in progress. */
  private async handleMessage(message: AttachRequest['message']): Promise<void> {
    switch (message?.$case) {
      case 'commandReceived':
        return await this.handleReceipt(message.value);
      case 'commandResult':
        return await this.handleResult(message.value);
      case 'uplink':
        return await this.handleUplink(message.value);
      case 'hello':
        throw validationFailed([
          { field: 'hello', description: 'was sent twice: send it once, as the first message of the stream' },
        ]);
      case undefined:
        throw validationFailed([
          {
            field: 'message',
            description: 'is of an unknown kind: send a commandReceived, a commandResult or an uplink',
          },
        ]);
    }
  }

  /** Queues the evidence that the gateway received a command. */
  private async handleReceipt(receipt: CommandReceived): Promise<void> {
    const { executionId, time } = receipt;
    const reason = findRejection(receipt);
    if (reason !== undefined) return await this.rejectMessage(executionId, reason, createMessageRejection);
    const queueKey = this.getExecutionQueueKey(executionId);
    // The time must not depend on how long the job is queued.
    const receivedAt = this.options.arrivals.nextArrivalTime();
    this.options.log.debug(
      { connection_id: this.session.identity.connectionId, execution_id: executionId },
      'gateway.command_received',
    );
    this.markReceived(executionId);
    await this.enqueue(queueKey, { execution_id: executionId }, async () => {
      await this.storeEvidence(executionId, {
        ...toReceiptEvidence(time),
        receivedAt,
        clock: getClockId(this.session.identity),
      });
    });
  }

  /** Queues the result of a command, to be stored and acknowledged. */
  private async handleResult(commandResult: CommandResult): Promise<void> {
    const { executionId, result, ...report } = commandResult;
    const reason = findRejection(commandResult);
    if (reason !== undefined) return await this.rejectResult(executionId, reason);
    const queueKey = this.getExecutionQueueKey(executionId);
    // The time must not depend on how long the job is queued.
    const receivedAt = this.options.arrivals.nextArrivalTime();
    this.options.log.debug(
      { connection_id: this.session.identity.connectionId, execution_id: executionId, result },
      'gateway.command_result',
    );
    this.markReceived(executionId);
    await this.enqueue(queueKey, { execution_id: executionId }, async () => {
      const outcome = await this.storeEvidence(executionId, {
        ...toResultEvidence(result, report),
        receivedAt,
        clock: getClockId(this.session.identity),
      });
      this.session.forget(executionId);
      await this.session.sendResponse(createResultAck(executionId, outcome));
    });
  }

  /**
   * Rejects an invalid result. The execution shows that its response was not understood, until a corrected result
   * arrives.
   */
  private async rejectResult(executionId: string, reason: string): Promise<void> {
    if (!UUID.test(executionId)) return await this.rejectMessage(executionId, reason, createResultRejection);
    const receivedAt = this.options.arrivals.nextArrivalTime();
    await this.enqueue(this.getExecutionQueueKey(executionId), { execution_id: executionId }, async () => {
      const clock = getClockId(this.session.identity);
      await this.storeEvidence(executionId, { ...toRejectedResultEvidence(reason), receivedAt, clock });
      await this.rejectMessage(executionId, reason, createResultRejection);
    });
  }

  /** Queues an uplink to be stored and acknowledged, or rejects it if it is invalid. */
  private async handleUplink(uplink: Uplink): Promise<void> {
    const message = readUplink(this.session.identity, uplink, this.options.arrivals.nextArrivalTime());
    if ('reason' in message) return await this.rejectUplink(uplink, message.reason);
    const { uplinkId } = uplink;
    this.options.log.debug(
      { connection_id: message.connectionId, uplink_id: uplinkId, client_device_id: message.clientDeviceId },
      'gateway.uplink',
    );
    const queueKey = getDeviceQueueKey(message.clientDeviceId);
    await this.enqueue(
      queueKey,
      { uplink_id: uplinkId, client_device_id: message.clientDeviceId },
      async () => await this.backpressure.store(queueKey, async () => await this.storeUplink(uplink, message)),
    );
  }

  /** Stores a valid uplink and sends the outcome to the gateway. */
  private async storeUplink(uplink: Uplink, message: UplinkMessage): Promise<void> {
    const outcome = await this.options.events.uplink(message);
    reportOutcome(this.dataWarnings, message, outcome, { formatExample: () => formatExample(uplink) });
    const { uplinkId } = uplink;
    if (outcome.outcome !== 'rejected')
      this.options.log.debug(
        { connection_id: message.connectionId, uplink_id: uplinkId, outcome: outcome.outcome },
        'gateway.uplink_stored',
      );
    await this.session.sendResponse(createUplinkAck(uplinkId, outcome));
  }

  /** Reports an invalid uplink, and tells the gateway so that it deletes the uplink. */
  private async rejectUplink(uplink: Uplink, reason: string): Promise<void> {
    const { clientDeviceId, uplinkId } = uplink;
    this.dataWarnings.report('uplinks_rejected', { clientDeviceId, reason, example: formatExample(uplink) });
    await this.session.sendResponse(createUplinkAck(uplinkId, { outcome: 'rejected', reason }));
  }

  /**
   * Rejects an invalid message about a command. The gateway has the command anyway, so it no longer counts as in
   * flight.
   */
  private async rejectMessage(executionId: string, reason: string, createRejection: CreateRejection): Promise<void> {
    const shownId = executionId.toWellFormed().slice(0, MAX_ID_LENGTH); // the id itself may be invalid
    this.options.log.warn({ ...this.getLogFields(), execution_id: shownId, reason }, 'gateway.message_rejected');
    this.markReceived(executionId);
    await this.session.sendResponse(createRejection(shownId, reason));
  }

  /** Stores evidence about an execution. Returns the outcome, which is `unknown` if no execution has this id. */
  private async storeEvidence(executionId: string, evidence: Evidence): Promise<EvidenceOutcome> {
    const { organizationId, connectionId, gatewayId } = this.session.identity;
    const outcome = await this.options.events.evidence(
      organizationId,
      connectionId,
      executionId,
      `gateway:${gatewayId}`,
      evidence,
    );
    if (outcome === 'unknown')
      this.options.log.warn(
        { ...this.getLogFields(), execution_id: executionId, evidence: evidence.kind },
        'gateway.execution_unknown',
      );
    return outcome;
  }

  /** Marks a command as received by the gateway, so it is no longer in flight and another one may be sent. */
  private markReceived(executionId: string): void {
    const { organizationId, connectionId } = this.session.identity;
    if (this.session.markReceived(executionId)) this.options.events.ready(organizationId, connectionId);
  }

  /**
   * Queues a job after earlier ones with the same queue key; waits only while too many are in progress. A failed
   * message is not acknowledged. A failure with a reason (the database is unavailable) ends the stream, so that the
   * gateway attaches again and repeats the message; for uplinks on a full disk see UplinkBackpressure.
   */
  private async enqueue(queueKey: string, fields: object, job: () => Promise<void>): Promise<void> {
    await this.session.queue.add(queueKey, async () => {
      try {
        await job();
      } catch (err) {
        this.options.log.error({ ...this.getLogFields(), ...fields, err }, 'gateway.message_failed');
        if (err instanceof DomainError) this.session.end(err);
      }
    });
  }

  /**
   * Returns the queue key of an execution: that of its device, or its own one if the device is unknown because another
   * session sent it.
   */
  private getExecutionQueueKey(executionId: string): string {
    const device = this.session.findDevice(executionId);
    return device === undefined ? `execution ${executionId}` : getDeviceQueueKey(device);
  }

  /** Returns the fields of every log line. */
  private getLogFields(): object {
    const { organizationId, connectionId, gatewayId } = this.session.identity;
    return { organization_id: organizationId, connection_id: connectionId, gateway_id: gatewayId };
  }
}

/** Formats the payload of an uplink for a data warning. */
function formatExample({ payload }: Uplink): string {
  return payload?.$case === 'bytes' ? formatBytesExample(payload.value) : formatJsonExample(payload?.value);
}

function getDeviceQueueKey(clientDeviceId: string): string {
  return `device ${clientDeviceId}`;
}
