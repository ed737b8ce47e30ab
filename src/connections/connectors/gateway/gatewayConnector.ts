import type { AttachRequest, AttachResponse, Hello } from '../../../gen/gateway/v1/gateway_service';
import type { Clock } from '../../../kernel/clock';
import { DomainError, notFound, validationFailed } from '../../../kernel/errors';
import type { Logger } from '../../../kernel/logger';
import type { CallContext } from '../../../rpc/callContext';
import type { BidiStream } from '../../../rpc/handlers';
import type { Arrivals } from '../../arrivals';
import { effectivePolicy, type Connection } from '../../connection';
import type { ConnectionRepository } from '../../connectionRepository';
import type { ConnectionStatuses } from '../../connectionStatuses';
import type { ConnectionCheck, Connector, ConnectorEvents, Downlink, OpenConnection, Peer, SendResult } from '../../connector';
import { GatewayInbox } from './gatewayInbox';
import { attachmentFromHello, welcomeMessage } from './gatewayMessages';
import { clockOf, GatewaySession, type GatewayIdentity } from './gatewaySession';
import { GATEWAY } from './gatewayType';
import { commonVersion, shownSoftware } from './protocolVersions';
import { Seat } from './seat';

/** What the connector needs of the house. */
export interface GatewayConnectorOptions {
  readonly connections: ConnectionRepository;
  readonly statuses: ConnectionStatuses;
  /** One for all connectors. */
  readonly arrivals: Arrivals;
  readonly clock: Clock;
  readonly log: Logger;
  /** How long a stream may stay without its Hello, in milliseconds; 10 s where nothing is said. */
  readonly helloTimeoutMs?: number;
}

type AttachStream = BidiStream<AttachRequest, AttachResponse>;
type Requests = AsyncIterator<AttachRequest, unknown>;

const HELLO_TIMEOUT = 10_000;

/** Gateway software that attaches by `gateway.v1.GatewayService/Attach`. */
export class GatewayConnector implements Connector {
  readonly id = GATEWAY.id;
  private readonly seats = new Map<string, Seat>();
  // One for all sessions: what one brought is compared with what the next brings.
  private readonly arrivals: Arrivals;
  private lastNumber = 0;
  private events: ConnectorEvents | undefined;

  constructor(private readonly options: GatewayConnectorOptions) {
    this.arrivals = options.arrivals;
  }

  /** Hands the rooms above down. */
  start(events: ConnectorEvents): void {
    this.events = events;
  }

  /** Who is attached to a connection and has its welcome. */
  peer(connectionId: string): Peer | undefined {
    return this.sessionOf(connectionId)?.peer;
  }

  /** Sends a command to one attachment and to no other. */
  async send(downlink: Downlink, session: number): Promise<SendResult> {
    const current = this.sessionOf(downlink.connectionId);
    return current?.number === session ? await current.send(downlink) : 'not_sent';
  }

  /** Takes a command back that waits for the gateway to read. True: it provably never left. */
  takeBack(connectionId: string, executionId: string): boolean {
    const session = this.sessionOf(connectionId);
    if (!session?.takeBack(executionId)) return false;
    this.events?.ready(session.identity.organizationId, connectionId);
    return true;
  }

  /** Tells the attached gateway to drop a command that ended here; one that waits for its welcome is told after that. */
  withdraw(connectionId: string, executionId: string): void {
    const session = this.sessionOf(connectionId);
    session?.withdraw(executionId);
    if (session?.peer) this.events?.ready(session.identity.organizationId, connectionId);
  }

  /** A connection was changed and the change is on disk. */
  connectionChanged({ connection }: OpenConnection): void {
    const session = this.sessionOf(connection.id);
    if (!session) return;
    if (!connection.enabled) return session.end(connectionDisabled(connection.id));
    session.setMaxInFlight(effectivePolicy(connection.policy).maxInFlight);
    this.events?.ready(connection.organizationId, connection.id);
  }

  /** A connection was deleted and that is on disk. */
  connectionDeleted(connectionId: string): void {
    this.sessionOf(connectionId)?.end(notFound('connection', connectionId));
    this.seats.delete(connectionId);
  }

  /** Gateways come by themselves: there is nobody to call. */
  async test({ connection }: OpenConnection): Promise<readonly ConnectionCheck[]> {
    const session = this.sessionOf(connection.id);
    if (session?.peer) return [{ name: 'gateway', outcome: 'ok', message: `the gateway ${JSON.stringify(session.identity.gatewayId)} is attached` }];
    const { lastError } = this.options.statuses.of(connection);
    const message = lastError ? `no gateway is attached now: ${lastError}` : 'no gateway is attached now; start the gateway software with the id of this connection and a key that holds gateways:write for it';
    return [{ name: 'gateway', outcome: 'warning', message }];
  }

  /** The streams end with the server that serves them. */
  async stop(): Promise<void> {}

  /** Serves one stream to its end. Resolves when the gateway has sent its last message; throws the reason of any other end. */
  async attach(stream: AttachStream, context: CallContext): Promise<void> {
    const requests: Requests = stream.requests[Symbol.asyncIterator]();
    const hello = await this.hello(requests);
    const { organizationId } = await this.admit(hello.connectionId, context);
    const identity = { organizationId, connectionId: hello.connectionId, gatewayId: hello.gatewayId, bootId: hello.bootId };
    this.requireCommonVersion(hello, identity); // one that cannot talk with us must not take the seat of one that can
    this.lastNumber += 1;
    const session = new GatewaySession(identity, this.lastNumber, async (message) => await stream.send(message), this.options.clock);
    const release = endWith(context.signal, session);
    const previous = this.take(session);
    try {
      await Promise.race([this.serve(session, hello, previous, requests, context), session.ended]);
      this.leave(session, undefined);
    } catch (error) {
      this.leave(session, error);
      throw error;
    } finally {
      release();
    }
  }

  private async serve(session: GatewaySession, hello: Hello, previous: GatewaySession | undefined, requests: Requests, context: CallContext): Promise<void> {
    const events = this.started();
    const { organizationId, connectionId } = session.identity;
    await session.settle(async () => {
      await previous?.drained();
      await this.seats.get(connectionId)?.departure;
      if (!session.isEnded) await events.attached(attachmentFromHello(organizationId, hello, { receivedAt: this.arrivals.stamp(), clock: clockOf(session.identity) }));
    });
    const { policy } = await this.admit(connectionId, context); // it may have been switched off meanwhile
    if (session.isEnded) return;
    const { maxInFlight } = effectivePolicy(policy);
    const protocolVersion = commonVersion(hello);
    session.welcome(welcomeMessage(this.options.clock.now(), maxInFlight, protocolVersion), maxInFlight);
    const software = shownSoftware(hello.software);
    this.options.statuses.attached(connectionId, software);
    this.options.statuses.messageReceived(connectionId); // its Hello
    this.options.log.info({ ...fieldsOf(session), known: hello.known.length, store: hello.store, protocol_version: protocolVersion, software }, 'gateway.attached');
    events.ready(organizationId, connectionId);
    await new GatewayInbox(session, { ...this.options, arrivals: this.arrivals, events }).readAll(requests);
    await session.drained(); // its last messages are answered before the stream ends
  }

  /** The first message. Throws `validation_failed` if it is another one, `hello_missing` if it does not come in time. */
  private async hello(requests: Requests): Promise<Hello> {
    const limit = this.options.helloTimeoutMs ?? HELLO_TIMEOUT;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(helloMissing(limit)), limit)));
    try {
      const first = await Promise.race([requests.next(), late]);
      const message = first.done === true ? undefined : first.value.message;
      if (message?.$case !== 'hello') throw validationFailed([{ field: 'hello', description: 'is missing; send it as the first message of the stream' }]);
      return message.value;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The connection of a Hello. Throws `connection_not_found`, also for one that the key does not name, `not_a_gateway`, `connection_disabled`. */
  private async admit(connectionId: string, { principal, organizationId }: CallContext): Promise<Connection> {
    if (principal.connections !== 'all' && !principal.connections.has(connectionId)) throw notFound('connection', connectionId);
    const connection = await this.options.connections.get(organizationId, connectionId);
    if (connection.connectorId !== GATEWAY.id) throw notAGateway(connection);
    if (!connection.enabled) throw connectionDisabled(connectionId);
    return connection;
  }

  /** Throws what commonVersion does. Whoever looks for old gateways finds one in the log, and in the status where no other one is attached. */
  private requireCommonVersion(hello: Hello, { organizationId, connectionId, gatewayId, bootId }: GatewayIdentity): void {
    try {
      commonVersion(hello);
    } catch (error) {
      if (error instanceof DomainError && error.reason === 'protocol_version_unsupported') {
        const software = shownSoftware(hello.software);
        this.options.log.warn({ organization_id: organizationId, connection_id: connectionId, gateway_id: gatewayId, boot_id: bootId, software, message: error.message }, 'gateway.version_refused');
        if (!this.sessionOf(connectionId)) this.options.statuses.refused(connectionId, `${error.reason}: ${error.message}`);
      }
      throw error;
    }
  }

  private take(session: GatewaySession): GatewaySession | undefined {
    const { connectionId } = session.identity;
    const seat = this.seats.get(connectionId) ?? new Seat(this.options.clock, (rival) => this.contest(rival));
    this.seats.set(connectionId, seat);
    const previous = seat.take(session);
    if (previous) this.options.log.info({ ...fieldsOf(session), replaced_gateway_id: previous.identity.gatewayId, replaced_session: previous.number }, 'gateway.replaced');
    return previous;
  }

  private leave(session: GatewaySession, error: unknown): void {
    const { connectionId } = session.identity;
    const reason = error instanceof DomainError ? error.reason : error === undefined ? undefined : 'internal';
    session.end(new DomainError('cancelled', 'cancelled', 'the stream is over'));
    this.options.log.info({ ...fieldsOf(session), reason }, 'gateway.detached');
    const seat = this.seats.get(connectionId);
    if (!seat?.leave(session)) return;
    seat.departure = this.depart(session);
    if (reason === 'connection_not_found') this.seats.delete(connectionId); // it was deleted while this one took its seat
    this.options.statuses.detached(connectionId, reason && reason !== 'shutting_down' ? `${reason}: ${messageOf(error)}` : '');
  }

  /** What was on its way to a gateway that is gone: nobody knows. Whoever comes next waits for this. */
  private async depart(session: GatewaySession): Promise<void> {
    const { organizationId, connectionId } = session.identity;
    try {
      await session.drained(); // what it brought comes first
      await this.started().detached(organizationId, connectionId);
    } catch (err) {
      this.options.log.error({ ...fieldsOf(session), err }, 'gateway.detach_failed'); // the next attachment settles it
    }
  }

  private contest({ organizationId, connectionId, gatewayId }: GatewayIdentity): void {
    if (this.options.statuses.contested(connectionId)) this.options.log.error({ organization_id: organizationId, connection_id: connectionId, gateway_id: gatewayId }, 'gateway.contested');
  }

  private sessionOf(connectionId: string): GatewaySession | undefined {
    return this.seats.get(connectionId)?.current;
  }

  private started(): ConnectorEvents {
    if (!this.events) throw new Error('the gateway connector is not started; call start before anybody can attach');
    return this.events;
  }
}

/** Ends the session when the edge ends its call; answers how to stop listening. */
function endWith(signal: AbortSignal, session: GatewaySession): () => void {
  const end = (): void => session.end(signal.reason as Error);
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  return () => signal.removeEventListener('abort', end);
}

function fieldsOf(session: GatewaySession): object {
  const { organizationId, connectionId, gatewayId, bootId } = session.identity;
  return { organization_id: organizationId, connection_id: connectionId, gateway_id: gatewayId, boot_id: bootId, session: session.number };
}

/** An unknown failure says nothing outside of the log. */
function messageOf(error: unknown): string {
  return error instanceof DomainError ? error.message : 'the log says why';
}

function connectionDisabled(connectionId: string): DomainError {
  return new DomainError('conflict', 'connection_disabled', 'the connection is switched off; enable it, then attach again', { metadata: { connection_id: connectionId } });
}

function notAGateway({ id, connectorId }: Connection): DomainError {
  return new DomainError('conflict', 'not_a_gateway', `the connection is of the connector \`${connectorId}\`; attach to one of the connector \`${GATEWAY.id}\``, { metadata: { connection_id: id } });
}

function helloMissing(limitMs: number): DomainError {
  return new DomainError('deadline_exceeded', 'hello_missing', `no Hello came within ${limitMs / 1000} s; send it as the first message of the stream`);
}
