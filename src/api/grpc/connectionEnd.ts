import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import { DomainError } from '../../kernel/errors';
import { clientCancelled } from '../pipeline/activeCall';

/** What was observed on an HTTP/2 connection. */
interface Observation {
  /** When the ping without a response was sent, on the monotonic clock. */
  pingSentAt: number | undefined;
  /** The error code of the GOAWAY frame of the client. */
  goawayCode: number | undefined;
  /** The time without a response to a ping after which grpc-js closes the connection, in milliseconds. */
  readonly keepaliveTimeoutMs: number;
}

type Ping = (callback: (error: Error | null, duration: number, payload: Buffer) => void) => boolean;

/** A ping timer may fire this much early, in milliseconds. */
const TIMER_TOLERANCE_MS = 50;
const observations = new WeakMap<Http2Session, Observation>();
/** The streams that this server closed because their client read nothing, with the time without a read. */
const unreadMsByStream = new WeakMap<ServerHttp2Stream, number>();

/** Observes a new connection, so that `explainCallEnd` can say how it ended. grpc-js does not report it. */
export function observeConnection(session: Http2Session, keepaliveTimeoutMs: number): void {
  const observation: Observation = { pingSentAt: undefined, goawayCode: undefined, keepaliveTimeoutMs };
  observations.set(session, observation);
  session.on('goaway', (code) => (observation.goawayCode = code));
  const ping = session.ping.bind(session) as Ping;
  const observedPing: Ping = (callback) => {
    observation.pingSentAt = performance.now();
    return ping((error, duration, payload) => {
      if (!error) observation.pingSentAt = undefined; // an error means that the connection has ended
      callback(error, duration, payload);
    });
  };
  session.ping = observedPing as Http2Session['ping'];
}

/** Records that this server closes the stream, because its client has read nothing for `unreadMs` milliseconds. */
export function markUnread(stream: ServerHttp2Stream, unreadMs: number): void {
  unreadMsByStream.set(stream, unreadMs);
}

/**
 * Creates the error for a call that ended early: the client cancelled it, or its connection ended, with what was seen.
 */
export function explainCallEnd(stream: ServerHttp2Stream, session: Http2Session | undefined): DomainError {
  const unreadMs = unreadMsByStream.get(stream);
  if (unreadMs !== undefined) return connectionLost(`the client read nothing for ${formatSeconds(unreadMs)}`);
  if (session?.destroyed !== true) return clientCancelled();
  return connectionLost(describeConnectionEnd(stream.errored, observations.get(session)));
}

/** Describes how a connection ended. `error`: that of the stream; null if there was none. */
function describeConnectionEnd(error: NodeJS.ErrnoException | null, observation: Observation | undefined): string {
  const {
    pingSentAt = Infinity,
    goawayCode = constants.NGHTTP2_NO_ERROR,
    keepaliveTimeoutMs = Infinity,
  } = observation ?? {};
  const isNetworkError = error?.code !== undefined && !error.code.startsWith('ERR_');
  if (isNetworkError) return `the network connection broke (${error.code})`;
  if (goawayCode !== constants.NGHTTP2_NO_ERROR)
    return `the client closed the connection with the HTTP/2 error code ${goawayCode} (GOAWAY)`;
  const unansweredMs = performance.now() - pingSentAt;
  if (unansweredMs + TIMER_TOLERANCE_MS >= keepaliveTimeoutMs)
    return `no answer to pings for ${formatSeconds(unansweredMs)}: check that the client runs, and the network`;
  return 'the client closed the connection without ending the call';
}

/** Creates the error for a call whose connection has ended. */
function connectionLost(message: string): DomainError {
  return new DomainError('cancelled', 'connection_lost', message);
}

function formatSeconds(milliseconds: number): string {
  return `${Math.round(milliseconds / 1000)} s`;
}
