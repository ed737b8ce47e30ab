import { status } from '@grpc/grpc-js';
import type { Clock } from '../../kernel/clock';
import type { Violation } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { Principal } from '../../kernel/principal';
import { shuttingDown } from './activeCall';
import { bindPrincipal, assertScope } from './admission';
import type { Auditor } from './auditor';
import type { Authenticator } from './authenticator';
import { CallAuditor } from './callAuditor';
import { logEnd, type AccessLog, type CallOutcome } from './callLog';
import { combineObservers, type CallObserver } from './callObserver';
import { CallRegistry } from './callRegistry';
import type { UnaryHandler } from './handlers';
import type { IdempotencyStore } from './idempotencyStore';
import { applyIdempotencyKey, runOnce } from './idempotentCall';
import { ObservedCallView } from './observed';
import { DEFAULT_RESPONSE_LIMITS, ResponseBudget, type ResponseLimits } from './responseBudget';
import type { ServerCall } from './serverCall';
import { sendResponses } from './streamResponses';

/** If the message of a call arrives later than this after its headers, its key is checked again; milliseconds. */
const KEY_RECHECK_AGE_MS = 100;

/** The default interval at which keys with open streams are checked again, in milliseconds. */
const KEY_RECHECK_MS = 2_000;

/** Dependencies and settings of CallPipeline. */
export interface CallPipelineOptions {
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly log: Logger;
  /**
   * The interval at which keys with open streams are checked again, in milliseconds. Default: 2000. At most 4000, so
   * that a stream closes within 5 s.
   */
  readonly keyRecheckMs?: number;
  /** Writes the audit trail; always set in the application. */
  readonly auditor?: Auditor;
  /** Stores the responses to requests with an idempotency key; always set in the application. */
  readonly idempotency?: IdempotencyStore;
  /** Observers of every call. Default: none. */
  readonly observers?: readonly CallObserver[];
  /** Throws while the disk is full or read-only. Called before every change that does not free space. */
  readonly assertDiskSpace?: () => void;
  /** The limits of unread response bytes. Default: DEFAULT_RESPONSE_LIMITS. */
  readonly responseLimits?: ResponseLimits;
  /** Which requests are logged at level info. Default: `errors`. */
  readonly accessLog?: AccessLog;
}

/**
 * Processes every call, over gRPC and HTTP: `admit` when its headers have arrived, `process` with its request message,
 * `onEnd` after its response. The steps of `admit` and `process` await a promise only if they must wait, because a
 * promise for each step would slow down small calls.
 */
export class CallPipeline {
  readonly clock: Clock;
  readonly log: Logger;
  readonly calls: CallRegistry;
  readonly responses: ResponseBudget;
  readonly auditor: CallAuditor;
  private readonly authenticator: Authenticator;
  private readonly idempotency: IdempotencyStore | undefined;
  private readonly observer: CallObserver | undefined;
  private readonly assertDiskSpace: () => void;
  private readonly accessLog: AccessLog;

  constructor(options: CallPipelineOptions) {
    this.authenticator = options.authenticator;
    this.clock = options.clock;
    this.log = options.log;
    this.idempotency = options.idempotency;
    this.assertDiskSpace = options.assertDiskSpace ?? (() => {});
    this.accessLog = options.accessLog ?? 'errors';
    this.auditor = new CallAuditor(options.auditor);
    this.responses = new ResponseBudget(options.responseLimits ?? DEFAULT_RESPONSE_LIMITS);
    this.observer = combineObservers(options.observers ?? []);
    this.calls = new CallRegistry({ ...options, intervalMs: options.keyRecheckMs ?? KEY_RECHECK_MS });
  }

  /**
   * Admits a call when its headers have arrived: authenticates its key, counts it for the rate limit and checks its
   * scope, then lets the call read its messages. Fails the call with the error of the first step that rejects it.
   */
  async admit(call: ServerCall): Promise<void> {
    const { context, method } = call;
    this.calls.add(call);
    context.endListener = this.observer?.onCallStarted(new ObservedCallView(call));
    try {
      call.checkHeaders();
      if (this.calls.isDraining && !isGrpcHealthCheck(call)) throw shuttingDown();
      if (method.descriptor.scope !== 'none') {
        const authenticated = this.authenticator.authenticate(call.apiKey, context.peer);
        const principal = authenticated instanceof Promise ? await authenticated : authenticated;
        this.authenticator.countCall(principal, context.peer);
        assertScope(method.descriptor, principal);
        if (call.isFinished) return;
        bindPrincipal(context, principal, call.listOrganizations(), !method.isUnary);
      }
      if (!method.isUnary) this.calls.keyWatch.watchStream(call);
      if (method.descriptor.kind === 'bidi_streaming') this.auditor.recordOpenedStream(call);
      call.startReading();
    } catch (error) {
      call.fail(error);
    }
  }

  /**
   * Processes the only request message of a call, up to its response, inside the context of the call's observer (for
   * example a trace span). `decodeViolations`: violations that were found while the message was decoded.
   */
  process(call: ServerCall, request: unknown, decodeViolations: readonly Violation[] = []): void {
    const { endListener } = call.context;
    const work = (): void => void this.processRequest(call, request, decodeViolations);
    if (endListener?.runInContext) endListener.runInContext(work);
    else work();
  }

  /** Waits for the response budget, authorizes a late call again, validates, guards, and handles the request. */
  private async processRequest(
    call: ServerCall,
    request: unknown,
    decodeViolations: readonly Violation[],
  ): Promise<void> {
    const { context, method } = call;
    try {
      const budget = this.responses.registerCall(call);
      if (budget) await waitUnlessAborted(call, budget);
      const authorization = this.reauthorizeIfLate(call);
      if (authorization) await waitUnlessAborted(call, authorization);
      const rejection = method.validate(context, request, applyIdempotencyKey(call, request, decodeViolations));
      if (rejection) await rejection;
      const access = this.guard(call, request);
      if (access) await access;
      if (method.isUnary) await this.handle(call, request, () => this.callHandler(call, request));
      else await sendResponses(call, request);
    } catch (error) {
      call.fail(error);
    }
  }

  /**
   * Checks the disk space for a change (but not for one that frees space), and that a restricted key may access the
   * resources that the request names. Returns a promise if the access must be read. Throws `storage_full`,
   * `storage_read_only`, and the error for a resource that does not exist.
   */
  guard({ method, context }: ServerCall, request: unknown): Promise<void> | undefined {
    if (method.descriptor.changes && !method.descriptor.freesSpace) this.assertDiskSpace();
    return method.checkScope(context, request);
  }

  /** Processes a stream of requests with one response: guards and audits it before its first message is read. */
  async processRequestStream(call: ServerCall, handleStream: () => Promise<unknown>): Promise<void> {
    await this.guard(call, undefined);
    await this.handle(call, undefined, handleStream);
  }

  /** Runs a handler with one response, inside the audit entry of a change, and sends the response. */
  private async handle(call: ServerCall, request: unknown, handler: () => Promise<unknown>): Promise<void> {
    const auditing = this.auditor.begin(call, request);
    if (auditing) await auditing;
    let response: unknown;
    try {
      if (call.context.abortReason) throw call.context.abortReason;
      response = await handler();
    } catch (error) {
      this.auditor.end(call, request, { error });
      throw error;
    }
    this.auditor.end(call, request, { response });
    call.respond(response);
  }

  /** Calls the handler of a unary method. With an idempotency key, it runs only for the first request with that key. */
  private callHandler(call: ServerCall, request: unknown): Promise<unknown> {
    const { method, context } = call;
    if (this.idempotency && context.idempotencyKey !== undefined) return runOnce(this.idempotency, call, request);
    return (method.handler as UnaryHandler<unknown, unknown>)(request, context);
  }

  /**
   * Authorizes a unary call again, with the current permissions of its key, if its message arrived late; otherwise a
   * client could open a call and use it after its key was revoked. The call is not counted again. KeyWatch checks
   * the keys of streams. Returns undefined if the call is authorized, a promise if the key must be read first.
   */
  private reauthorizeIfLate(call: ServerCall): Promise<void> | undefined {
    const { method, context } = call;
    const isLate = this.clock.monotonic() - context.startedAt >= KEY_RECHECK_AGE_MS;
    if (!isLate || !method.isUnary || method.descriptor.scope === 'none') return undefined;
    const apply = (principal: Principal): void => {
      assertScope(method.descriptor, principal);
      context.principal = principal;
    };
    const authenticated = this.authenticator.authenticate(call.apiKey, context.peer);
    if (authenticated instanceof Promise) return authenticated.then(apply);
    apply(authenticated);
    return undefined;
  }

  /** Called by a call when its end is decided: removes it, and reports it to the audit trail, observers and the log. */
  onEnd(call: ServerCall, end: CallOutcome): void {
    const { context } = call;
    this.calls.remove(call);
    this.auditor.recordRejected(call, end);
    const durationMs = this.clock.monotonic() - context.startedAt;
    context.endListener?.onCallEnded({ ...end, code: status[end.code], durationMs });
    logEnd(call, { ...end, durationMs }, this.accessLog);
  }
}

/** Whether a call asks for the health over gRPC, which must be able to report that the server is stopping. */
function isGrpcHealthCheck({ method, transport }: ServerCall): boolean {
  return transport === 'grpc' && method.isUnary && method.descriptor.service.startsWith('grpc.health.');
}

/** Waits before the next step of a call. Throws its abort reason if it was aborted meanwhile. */
async function waitUnlessAborted({ context }: ServerCall, step: Promise<void>): Promise<void> {
  await step;
  if (context.abortReason) throw context.abortReason;
}
