import type { AttachRequest, CommandReceived, CommandResult, Uplink } from '../../../gen/gateway/v1/gateway_service';
import { DomainError, validationFailed } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';
import type { Arrivals } from '../../arrivals';
import type { ConnectorEvents, Evidence, EvidenceOutcome, UplinkMessage } from '../../connector';
import type { ConnectionStatuses } from '../../connectionStatuses';
import { evidenceOfReceipt, evidenceOfResult, resultAckMessage, uplinkAckMessage } from './gatewayMessages';
import { clockOf, type GatewaySession } from './gatewaySession';
import { HeldUplinks } from './heldUplinks';
import { readUplink } from './uplinkReader';

/** What taking messages in needs. */
export interface GatewayInboxOptions {
  readonly events: ConnectorEvents;
  readonly statuses: ConnectionStatuses;
  readonly arrivals: Arrivals;
  readonly log: Logger;
}

/** Takes in what an attached gateway sends, and answers it once it is on disk. What a device is concerned with stays in order. */
export class GatewayInbox {
  private readonly held: HeldUplinks;

  constructor(
    private readonly session: GatewaySession,
    private readonly options: GatewayInboxOptions,
  ) {
    this.held = new HeldUplinks(session, { log: options.log, fields: this.fields() });
  }

  /** Reads until the gateway has sent its last message or the session ended. Throws `validation_failed` for what may not come here. */
  async readAll(requests: AsyncIterator<AttachRequest, unknown>): Promise<void> {
    for (let next = await requests.next(); next.done !== true && !this.session.isEnded; next = await requests.next()) {
      this.options.statuses.messageReceived(this.session.identity.connectionId);
      await this.take(next.value.message);
    }
  }

  private async take(message: AttachRequest['message']): Promise<void> {
    switch (message?.$case) {
      case 'commandReceived':
        return await this.takeReceipt(message.value);
      case 'commandResult':
        return await this.takeResult(message.value);
      case 'uplink':
        return await this.takeUplink(message.value);
      case 'hello':
        throw validationFailed([{ field: 'hello', description: 'came a second time; send it once, as the first message of the stream' }]);
      case undefined:
        throw validationFailed([{ field: 'message', description: 'is none that this server knows; send a commandReceived, a commandResult or an uplink' }]);
    }
  }

  private async takeReceipt({ executionId, time }: CommandReceived): Promise<void> {
    const lane = this.laneOf(executionId);
    const receivedAt = this.options.arrivals.stamp(); // the job waits for its turn
    this.options.log.debug({ connection_id: this.session.identity.connectionId, execution_id: executionId }, 'gateway.command_received');
    this.makeRoom(executionId);
    await this.add(lane, { execution_id: executionId }, async () => {
      await this.apply(executionId, { ...evidenceOfReceipt(time), receivedAt, clock: clockOf(this.session.identity) });
    });
  }

  private async takeResult({ executionId, result, ...report }: CommandResult): Promise<void> {
    const lane = this.laneOf(executionId);
    const receivedAt = this.options.arrivals.stamp(); // the job waits for its turn
    this.options.log.debug({ connection_id: this.session.identity.connectionId, execution_id: executionId, result }, 'gateway.command_result');
    this.makeRoom(executionId);
    await this.add(lane, { execution_id: executionId }, async () => {
      const outcome = await this.apply(executionId, { ...evidenceOfResult(result, report), receivedAt, clock: clockOf(this.session.identity) });
      this.session.forget(executionId);
      await this.session.answer(resultAckMessage(executionId, outcome));
    });
  }

  private async takeUplink(uplink: Uplink): Promise<void> {
    const message = readUplink(this.session.identity, uplink, this.options.arrivals.stamp());
    if ('reason' in message) return await this.reject(uplink.uplinkId, message.reason);
    const { uplinkId } = uplink;
    this.options.log.debug({ connection_id: message.connectionId, uplink_id: uplinkId, client_device_id: message.clientDeviceId }, 'gateway.uplink');
    const lane = laneOfDevice(message.clientDeviceId);
    await this.add(lane, { uplink_id: uplinkId, client_device_id: message.clientDeviceId }, async () => await this.held.store(lane, async () => await this.store(uplinkId, message)));
  }

  private async store(uplinkId: string, message: UplinkMessage): Promise<void> {
    const outcome = await this.options.events.uplink(message);
    if (outcome.outcome === 'rejected') return await this.reject(uplinkId, outcome.reason);
    this.options.log.debug({ connection_id: message.connectionId, uplink_id: uplinkId, outcome: outcome.outcome }, 'gateway.uplink_taken');
    await this.session.answer(uplinkAckMessage(uplinkId, outcome));
  }

  private async reject(uplinkId: string, reason: string): Promise<void> {
    this.options.log.warn({ ...this.fields(), uplink_id: uplinkId.slice(0, 64), reason }, 'gateway.uplink_rejected');
    await this.session.answer(uplinkAckMessage(uplinkId, { outcome: 'rejected', reason }));
  }

  private async apply(executionId: string, evidence: Evidence): Promise<EvidenceOutcome> {
    const { organizationId, connectionId, gatewayId } = this.session.identity;
    const outcome = await this.options.events.evidence(organizationId, connectionId, executionId, `gateway:${gatewayId}`, evidence);
    if (outcome === 'unknown') this.options.log.warn({ ...this.fields(), execution_id: executionId, evidence: evidence.kind }, 'gateway.execution_unknown');
    return outcome;
  }

  private makeRoom(executionId: string): void {
    const { organizationId, connectionId } = this.session.identity;
    if (this.session.received(executionId)) this.options.events.ready(organizationId, connectionId);
  }

  /** What failed is not acknowledged. A failure with a reason (the database is away) ends the stream, so that the gateway comes back and sends it again; for uplinks on a full disk see HeldUplinks. */
  private async add(lane: string, fields: object, job: () => Promise<void>): Promise<void> {
    await this.session.work.add(lane, async () => {
      try {
        await job();
      } catch (err) {
        this.options.log.error({ ...this.fields(), ...fields, err }, 'gateway.message_failed');
        if (err instanceof DomainError) this.session.end(err);
      }
    });
  }

  private laneOf(executionId: string): string {
    const device = this.session.findDevice(executionId);
    return device === undefined ? `execution ${executionId}` : laneOfDevice(device);
  }

  private fields(): object {
    const { organizationId, connectionId, gatewayId } = this.session.identity;
    return { organization_id: organizationId, connection_id: connectionId, gateway_id: gatewayId };
  }
}

function laneOfDevice(clientDeviceId: string): string {
  return `device ${clientDeviceId}`;
}
