import { status } from '@grpc/grpc-js';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import { KeyRefused, KeyUnknown, type Principal } from '../../kernel/principal';
import { admitAgain } from '../admission';
import type { Auditor } from '../auditor';
import type { Authenticator } from '../authenticator';
import { observersAsOne, type CallObserver } from '../callObserver';
import { toWire, type WireError } from '../errorTable';
import { shuttingDown } from '../openCall';
import { auditedCall, endOf, isAudited, resourceOf, withoutSuccess } from './audited';
import { KeyWatch } from './keyWatch';
import { Observed } from './observed';
import type { ServedCall } from './servedCall';

const HEALTH_CHECK = '/grpc.health.v1.Health/Check';

/** How long after its headers the message of a call may come before its key is looked at again, in milliseconds. */
const AT_ONCE = 100;

/** What every open call of one server shares. */
export class Edge {
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly log: Logger;
  private readonly auditor: Auditor | undefined;
  private readonly observer: CallObserver | undefined;
  /** New calls are refused: the server is stopping. */
  draining = false;
  private readonly requireRoom: () => void;
  private readonly calls = new Set<ServedCall>();
  private readonly keys: KeyWatch;
  private idle: (() => void) | undefined;

  constructor(options: { authenticator: Authenticator; clock: Clock; log: Logger; keyRecheckMs: number; auditor?: Auditor; observers?: readonly CallObserver[]; requireRoom?: () => void }) {
    this.authenticator = options.authenticator;
    this.clock = options.clock;
    this.log = options.log;
    this.auditor = options.auditor;
    this.requireRoom = options.requireRoom ?? (() => {});
    this.observer = observersAsOne(options.observers ?? []);
    this.keys = new KeyWatch({ ...options, everyMs: options.keyRecheckMs });
  }

  /** A call has begun. */
  open(call: ServedCall): void {
    this.calls.add(call);
  }

  /** Its headers are here, and its request id is known. */
  began(call: ServedCall): void {
    if (this.observer) call.context.ending = this.observer.began(new Observed(call));
  }

  /** A stream's key is known: from here on it is looked at again and again. */
  streamOpened(call: ServedCall): void {
    this.keys.add(call);
    this.streamAudited(call);
  }

  /**
   * The message of a call is here. One that came late finds its key looked at again, since a caller could hold a call open with a key and
   * use it after the key has ended; from here on the call may do what the key may now. Streams are watched anyway. Throws as `admit`, but
   * counts nothing. Undefined: it passes.
   */
  readmit({ method, context }: ServedCall, key: string | undefined): Promise<void> | undefined {
    if (!method.isUnary || this.clock.monotonic() - context.startedAt < AT_ONCE) return undefined;
    const principal = admitAgain(this.authenticator, method.facts, key, context.peer);
    if (principal instanceof Promise) return principal.then((known) => void (context.principal = known));
    if (principal) context.principal = principal;
    return undefined;
  }

  /**
   * What has to be done before the handler sees a request: a limited key reaches what it names, and a change is in the audit trail. Undefined:
   * nothing. Throws `storage_full`, `storage_read_only`: the disk does not take a change just now.
   */
  prepare({ method, context }: ServedCall, request: unknown): Promise<void> | undefined {
    if (method.facts.changes && !method.facts.clearsUp) this.requireRoom();
    const passed = method.pass(context, request);
    if (!method.facts.changes || !this.auditor) return passed;
    const { auditor } = this;
    const begin = async (): Promise<void> => {
      await passed;
      context.intent = await auditor.begin(auditedCall(context, method.facts, request));
    };
    return begin();
  }

  /** The handler of a change has come to its end, whether or not its caller is still there. */
  changed({ method, context }: ServedCall, request: unknown, response: unknown, error?: unknown): void {
    if (!context.intent) return;
    const { outcome, reason } = endOf(method.facts, response, error);
    this.auditor?.end(context.intent, { outcome, reason, resource: resourceOf(method.facts, request, response) });
  }

  /** A stream that may change something was opened. */
  private streamAudited({ method, context }: ServedCall): void {
    if (method.facts.changes && method.facts.kind === 'bidi_streaming') this.auditor?.note(auditedCall(context, method.facts), { outcome: 'succeeded', reason: '', resource: '' });
  }

  /** A call that ended before its handler began was refused, if it is one that counts: a change, or a caller that may not. */
  private refusedAudited({ method, context }: ServedCall, code: status, reason: string | undefined): void {
    if (!this.auditor || reason === undefined || context.intent || !isAudited(method.facts, code, reason)) return;
    const resource = resourceOf(method.facts, context.request ?? context.inPath);
    this.auditor.note(auditedCall(context, method.facts, context.request), { outcome: withoutSuccess(code), reason, resource });
  }

  /** A call has ended: one line in the log. `http`: the status that went out, where it was one of HTTP. */
  closed(call: ServedCall, code: status, reason: string | undefined, http?: number): void {
    this.calls.delete(call);
    if (!call.method.isUnary) this.keys.delete(call);
    this.refusedAudited(call, code, reason);
    if (this.calls.size === 0) this.idle?.();
    const { path, requestId, peer, organizationId, startedAt, ending } = call.context;
    const durationMs = this.clock.monotonic() - startedAt;
    ending?.ended({ code: status[code], reason, http, durationMs });
    const principal = call.context.principal as Principal | undefined;
    const fields = {
      method: path,
      code: status[code],
      http,
      reason,
      duration_ms: Math.round(durationMs * 1000) / 1000,
      request_id: requestId,
      key_prefix: (principal ?? call.context.refusedKey)?.keyPrefix,
      organization_id: organizationId,
      peer,
    };
    // A supervisor asks every few seconds for years: that all is well is no news.
    this.log[path === HEALTH_CHECK && code === status.OK ? 'debug' : 'info'](fields, 'rpc.call');
  }

  /** What a caller is told of a failure; what it is not told goes to the log. */
  told(call: ServedCall, error: unknown): WireError {
    const { path, requestId } = call.context;
    if (error instanceof KeyRefused) call.context.refusedKey = error.key;
    if (error instanceof KeyUnknown) call.context.unknownKeyPrefix = error.keyPrefix;
    const wire = toWire(error, requestId);
    if (wire.cause !== undefined) this.log.error({ method: path, request_id: requestId, reason: wire.reason, err: wire.cause }, 'rpc.failed');
    return wire;
  }

  /** A handler failed after its call had ended. One that was told to end may end by any error of ours or of its signal; another is a fault. */
  failedLate(call: ServedCall, err: unknown): void {
    if (err instanceof DomainError || (err instanceof Error && err.name === 'AbortError')) return;
    this.log.error({ method: call.context.path, request_id: call.context.requestId, err }, 'rpc.failed_after_end');
  }

  /** Looks at a key at once, because somebody changed it in this process. */
  keyChanged(keyId: string): void {
    this.keys.recheck(keyId);
  }

  /** Looks at the keys of an organization that have open streams at once, because somebody changed in this process what they may do. */
  accessChanged(organizationId: string): void {
    this.keys.recheckOrganization(organizationId);
  }

  /** Resolves when no call is open. */
  async whenIdle(): Promise<void> {
    if (this.calls.size > 0) await new Promise<void>((resolve) => (this.idle = resolve));
  }

  /** Tells the streams to end; unary calls may go on. */
  endStreams(): void {
    for (const call of this.calls) if (!call.method.isUnary) call.abort(shuttingDown());
  }

  /** Ends every call that is still open. */
  endAll(): void {
    for (const call of this.calls) call.fail(shuttingDown());
  }
}
