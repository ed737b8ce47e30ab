import type { AttachRequest, AttachResponse, Hello } from '../../../gen/gateway/v1/gateway_service';
import type { Clock } from '../../../kernel/clock';
import { DomainError, notFound, validationFailed } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';
import { withTimeout } from '../../../kernel/withTimeout';
import type { CallContext } from '../../../api/pipeline/callContext';
import type { BidiStream } from '../../../api/pipeline/handlers';
import type { MonotonicTimestamps } from '../../monotonicTimestamps';
import { applyPolicyDefaults, type Connection } from '../../connection';
import type { ConnectionRepository } from '../../connectionRepository';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type {
  ConnectionCheck,
  Connector,
  ConnectorEvents,
  Downlink,
  OpenConnection,
  Peer,
  SendResult,
} from '../../connector';
import { connectionDisabled, helloRequired, notAGateway } from './gatewayErrors';
import { GatewayInbox } from './gatewayInbox';
import { toAttachment, createKnownResponses, createWelcome } from './gatewayMessages';
import { getClockId, getLogFields, GatewaySession, type GatewayIdentity } from './gatewaySession';
import { GATEWAY } from './gatewayType';
import { negotiateVersion, formatSoftware } from './protocolVersions';
import { SessionSlot } from './sessionSlot';
import { findReason, formatMessage } from './streamEnd';

/** Dependencies of GatewayConnector. */
interface GatewayConnectorOptions {
  readonly connections: ConnectionRepository;
  readonly statuses: ConnectionStatuses;
  /** Shared by all connectors. */
  readonly arrivals: MonotonicTimestamps;
  readonly clock: Clock;
  readonly log: Logger;
  /** The maximum time until the Hello of a stream, milliseconds; default 10 s. */
  readonly helloTimeoutMs?: number;
}

type AttachStream = BidiStream<AttachRequest, AttachResponse>;
type Requests = AsyncIterator<AttachRequest, unknown>;

/** A call of Attach after its Hello was read. `requests`: the messages after it. */
interface AttachCall {
  readonly hello: Hello;
  readonly requests: Requests;
  readonly context: CallContext;
}

const HELLO_TIMEOUT_MS = 10_000;

/** Connects gateway software that attaches with `gateway.v1.GatewayService/Attach`. */
export class GatewayConnector implements Connector {
  readonly id = GATEWAY.id;
  /** By connection id. */
  private readonly slots = new Map<string, SessionSlot>();
  // Shared by all sessions, because messages of consecutive sessions are compared.
  private readonly arrivals: MonotonicTimestamps;
  /** The number of the newest session. */
  private lastSessionNumber = 0;
  private events: ConnectorEvents | undefined;

  constructor(private readonly options: GatewayConnectorOptions) {
    this.arrivals = options.arrivals;
  }

  /** Passes the event handlers of the higher modules. */
  start(events: ConnectorEvents): void {
    this.events = events;
  }

  /** Returns the gateway that is attached and has received its welcome. */
  peer(connectionId: string): Peer | undefined {
    return this.findSession(connectionId)?.peer;
  }

  /** Does nothing: gateways attach on their own. */
  connectSoon(): void {}

  /** Sends a command to this attachment only. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    const current = this.findSession(downlink.connectionId);
    return current?.number === session ? await current.send(downlink) : 'not_sent';
  }

  /** Cancels a command that waits for the gateway to read. True: provably no byte of it left the server. */
  cancelUnsent(connectionId: string, executionId: string): boolean {
    const session = this.findSession(connectionId);
    if (!session?.cancelUnsent(executionId)) return false;
    this.events?.ready(session.identity.organizationId, connectionId);
    return true;
  }

  /**
   * Asks the attached gateway to cancel a command that is final here; before its welcome, the request is sent after the
   * welcome.
   */
  cancelAtGateway(connectionId: string, executionId: string): void {
    const session = this.findSession(connectionId);
    session?.cancelAtGateway(executionId);
    if (session?.peer) this.events?.ready(session.identity.organizationId, connectionId);
  }

  /** Applies a connection change after its commit. */
  connectionChanged({ connection }: OpenConnection): void {
    const session = this.findSession(connection.id);
    if (!session) return;
    if (!connection.enabled) {
      session.end(connectionDisabled(connection.id));
      return;
    }
    session.setMaxInFlight(applyPolicyDefaults(connection.policy).maxInFlight);
    this.events?.ready(connection.organizationId, connection.id);
  }

  /** Stops a connection after its deletion was committed. */
  connectionDeleted(connectionId: string): void {
    this.findSession(connectionId)?.end(notFound('connection', connectionId));
    this.slots.delete(connectionId);
  }

  /** Only reports whether a gateway is attached: gateways attach on their own, so the server cannot connect to one. */
  async test({ connection }: OpenConnection): Promise<readonly ConnectionCheck[]> {
    const session = this.findSession(connection.id);
    if (session?.peer)
      return [
        {
          name: 'gateway',
          outcome: 'ok',
          message: `the gateway ${JSON.stringify(session.identity.gatewayId)} is attached`,
        },
      ];
    const { lastError } = this.options.statuses.getStatus(connection);
    const message = lastError
      ? `no gateway is attached: ${lastError}`
      : 'no gateway is attached: start the gateway software with the id of this connection and an API key with gateways:write for it';
    return [{ name: 'gateway', outcome: 'warning', message }];
  }

  /** Does nothing: the streams are closed by the RPC server. */
  async stop(): Promise<void> {}

  /**
   * Serves one stream. Resolves when the gateway has sent its last message; throws the reason if the stream ends in
   * another way.
   */
  async attach(stream: AttachStream, context: CallContext): Promise<void> {
    const requests: Requests = stream.requests[Symbol.asyncIterator]();
    const hello = await this.readHello(requests);
    const { organizationId } = await this.authorizeConnection(hello.connectionId, context);
    const identity = {
      organizationId,
      connectionId: hello.connectionId,
      gatewayId: hello.gatewayId,
      bootId: hello.bootId,
    };
    this.assertCommonVersion(hello, identity); // an incompatible gateway must not replace a compatible one
    this.lastSessionNumber += 1;
    const session = new GatewaySession(
      identity,
      this.lastSessionNumber,
      async (message) => await stream.send(message),
      this.options.clock,
    );
    const removeAbortListener = endOnAbort(context.signal, session);
    const previous = this.activate(session);
    try {
      await Promise.race([this.runSession(session, previous, { hello, requests, context }), session.failure]);
      this.detach(session, undefined);
    } catch (error) {
      this.detach(session, error);
      throw error;
    } finally {
      removeAbortListener();
    }
  }

  /**
   * Runs an authorized session: applies the state of earlier attachments, sends the welcome, and processes messages
   * until the gateway has sent its last one. `previous`: the session that this one replaced.
   */
  private async runSession(
    session: GatewaySession,
    previous: GatewaySession | undefined,
    { hello, requests, context }: AttachCall,
  ): Promise<void> {
    const events = this.getEvents();
    const { organizationId, connectionId } = session.identity;
    const responses = await this.reconcile(session, previous, hello);
    // The connection may have been disabled in the meantime.
    const { policy } = await this.authorizeConnection(connectionId, context);
    if (session.isEnded) return;
    this.welcome(session, hello, applyPolicyDefaults(policy).maxInFlight);
    events.ready(organizationId, connectionId);
    const inbox = new GatewayInbox(session, { ...this.options, arrivals: this.arrivals, events });
    try {
      // Concurrently, because a gateway may write before it reads.
      await Promise.all([session.sendAll(responses), inbox.readAll(requests)]);
      await session.waitUntilDrained(); // its last messages are acknowledged before the stream ends
    } finally {
      inbox.flushLog();
    }
  }

  /**
   * Applies what the Hello says about commands of earlier sessions, in the order of the attachments: after the session
   * that this one replaced. Returns the responses to the Hello; none if the session has ended.
   */
  private async reconcile(
    session: GatewaySession,
    previous: GatewaySession | undefined,
    hello: Hello,
  ): Promise<AttachResponse[]> {
    const { organizationId, connectionId } = session.identity;
    let responses: AttachResponse[] = [];
    await session.reconcile(async () => {
      await previous?.waitUntilDrained();
      await this.slots.get(connectionId)?.detaching;
      if (session.isEnded) return;
      const arrival = { receivedAt: this.arrivals.nextArrivalTime(), clock: getClockId(session.identity) };
      const attachment = toAttachment(organizationId, hello, arrival);
      responses = createKnownResponses(hello, attachment, await this.getEvents().attached(attachment));
    });
    return responses;
  }

  /** Sends the welcome, after which the gateway receives commands, and records that it is attached. */
  private welcome(session: GatewaySession, hello: Hello, maxInFlight: number): void {
    const protocolVersion = negotiateVersion(hello);
    session.welcome(createWelcome(this.options.clock.now(), maxInFlight, protocolVersion), maxInFlight);
    const { connectionId } = session.identity;
    const software = formatSoftware(hello.software);
    this.options.statuses.markAttached(connectionId, software);
    this.options.statuses.markMessageReceived(connectionId); // the Hello
    this.options.log.info(
      {
        ...getLogFields(session),
        known: hello.known.length,
        store: hello.store,
        protocol_version: protocolVersion,
        software,
      },
      'gateway.attached',
    );
  }

  /**
   * Returns the first message. Throws `validation_failed` if it is not a Hello, `hello_required` if it does not arrive
   * in time.
   */
  private async readHello(requests: Requests): Promise<Hello> {
    const timeoutMs = this.options.helloTimeoutMs ?? HELLO_TIMEOUT_MS;
    const first = await withTimeout(requests.next(), timeoutMs, () => {
      throw helloRequired(timeoutMs);
    });
    const message = first.done === true ? undefined : first.value.message;
    if (message?.$case !== 'hello')
      throw validationFailed([
        { field: 'hello', description: 'is required: send it as the first message of the stream' },
      ]);
    return message.value;
  }

  /**
   * Returns the connection of a Hello. Throws `connection_not_found` (also if the key has no access to the connection),
   * `not_a_gateway`, `connection_disabled`.
   */
  private async authorizeConnection(
    connectionId: string,
    { principal, organizationId }: CallContext,
  ): Promise<Connection> {
    if (principal.connections !== 'all' && !principal.connections.has(connectionId))
      throw notFound('connection', connectionId);
    const connection = await this.options.connections.get(organizationId, connectionId);
    if (connection.connectorId !== GATEWAY.id) throw notAGateway(connection);
    if (!connection.enabled) throw connectionDisabled(connectionId);
    return connection;
  }

  /**
   * Throws the errors of negotiateVersion. An incompatible gateway is also reported in the log, and in the status if no
   * other one is attached.
   */
  private assertCommonVersion(
    hello: Hello,
    { organizationId, connectionId, gatewayId, bootId }: GatewayIdentity,
  ): void {
    try {
      negotiateVersion(hello);
    } catch (error) {
      if (error instanceof DomainError && error.reason === 'protocol_version_unsupported') {
        const software = formatSoftware(hello.software);
        this.options.log.warn(
          {
            organization_id: organizationId,
            connection_id: connectionId,
            gateway_id: gatewayId,
            boot_id: bootId,
            software,
            message: error.message,
          },
          'gateway.version_rejected',
        );
        if (!this.findSession(connectionId))
          this.options.statuses.markRejected(connectionId, `${error.reason}: ${error.message}`);
      }
      throw error;
    }
  }

  /** Makes the session the active one of its connection. Returns the session that it replaced; undefined if none. */
  private activate(session: GatewaySession): GatewaySession | undefined {
    const { connectionId } = session.identity;
    const slot =
      this.slots.get(connectionId) ?? new SessionSlot(this.options.clock, (identity) => this.reportConflict(identity));
    this.slots.set(connectionId, slot);
    const previous = slot.activate(session);
    if (previous)
      this.options.log.info(
        {
          ...getLogFields(session),
          replaced_gateway_id: previous.identity.gatewayId,
          replaced_session: previous.number,
        },
        'gateway.replaced',
      );
    return previous;
  }

  /**
   * Ends the session after its stream. Unless another session replaced it, the connection becomes detached. `error`:
   * why the stream ended; undefined after its regular end.
   */
  private detach(session: GatewaySession, error: unknown): void {
    const { connectionId } = session.identity;
    const reason = error === undefined ? undefined : findReason(error);
    session.end(new DomainError('cancelled', 'cancelled', 'the stream has ended'));
    this.options.log.info({ ...getLogFields(session), reason }, 'gateway.detached');
    const slot = this.slots.get(connectionId);
    if (!slot?.deactivate(session)) return;
    slot.detaching = this.reportDetached(session);
    // The connection was deleted, or the key lost its access, while this session was attaching: the slot is not needed.
    if (reason === 'connection_not_found') this.slots.delete(connectionId);
    // After an orderly end, the status shows no error.
    const isOrderly = reason === undefined || reason === 'shutting_down';
    this.options.statuses.markDetached(connectionId, isOrderly ? '' : `${reason}: ${formatMessage(error)}`);
  }

  /** Reports a detached gateway: the outcome of commands in transit is unknown. The next attachment waits for this. */
  private async reportDetached(session: GatewaySession): Promise<void> {
    const { organizationId, connectionId } = session.identity;
    try {
      await session.waitUntilDrained(); // store its received messages first
      await this.getEvents().detached(organizationId, connectionId);
    } catch (err) {
      // the next attachment completes what failed here
      this.options.log.warn({ ...getLogFields(session), err }, 'gateway.detach_failed');
    }
  }

  /** Reports a replaced gateway that returned; logs only the start of a conflict. */
  private reportConflict({ organizationId, connectionId, gatewayId }: GatewayIdentity): void {
    if (this.options.statuses.markConflict(connectionId))
      this.options.log.error(
        { organization_id: organizationId, connection_id: connectionId, gateway_id: gatewayId },
        'gateway.duplicate_attach',
      );
  }

  private findSession(connectionId: string): GatewaySession | undefined {
    return this.slots.get(connectionId)?.current;
  }

  /** Returns the event handlers. Throws if `start` was not called, which is a bug. */
  private getEvents(): ConnectorEvents {
    if (!this.events) throw new Error('the gateway connector is not started: call start before attach');
    return this.events;
  }
}

/** Ends the session when the call is aborted. Returns a function that removes the listener. */
function endOnAbort(signal: AbortSignal, session: GatewaySession): () => void {
  const endSession = (): void => session.end(signal.reason as Error);
  if (signal.aborted) endSession();
  signal.addEventListener('abort', endSession, { once: true });
  return () => signal.removeEventListener('abort', endSession);
}
