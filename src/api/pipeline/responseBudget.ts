import type { Principal } from '../../kernel/principal';
import type { ServerCall } from './serverCall';
import type { MethodHandler } from './methodHandler';

/** The maximum number of response bytes that clients have not read yet. */
export interface ResponseLimits {
  /** Per API key and connection. */
  readonly bytesPerConnection: number;
  /** Per API key, over all its connections. */
  readonly bytesPerKey: number;
}

/** The default limits: 1 MiB per connection, 4 MiB per key. */
export const DEFAULT_RESPONSE_LIMITS: ResponseLimits = {
  bytesPerConnection: 1024 * 1024,
  bytesPerKey: 4 * 1024 * 1024,
};

/** The minimum estimate for the size of a list response. */
const MIN_LIST_BYTES_ESTIMATE = 64 * 1024;
/** The maximum number of waiting calls of a key that continue in one turn of the event loop. */
const MAX_RESUMED_PER_TURN = 4;

/** The unread response bytes of one key on one network connection (`session`). */
interface SessionAccount {
  readonly session: object;
  bytes: number;
  callCount: number;
  /** Calls that wait for free budget, in order of arrival, each with the function that resumes it. */
  readonly resumeByWaitingCall: Map<ServerCall, () => void>;
}

/** The unread response bytes of one key on all its network connections. */
interface KeyAccount {
  readonly keyId: string;
  bytes: number;
  /** The size of the last response of each method. */
  readonly lastBytesByMethod: Map<MethodHandler, number>;
  readonly sessions: Map<object, SessionAccount>;
  isResumeScheduled: boolean;
}

/**
 * The bytes that one call reserves, counted in both accounts: an estimate before the response is encoded, then the
 * bytes that the client has not read yet.
 */
interface ReservedBytes {
  readonly keyAccount: KeyAccount;
  readonly sessionAccount: SessionAccount;
  bytes: number;
}

/**
 * Limits the bytes of encoded responses that clients have not read yet. While a key reaches a limit, in total or on one
 * network connection, its new unary calls wait before their handlers run; a waiting call keeps only its request in
 * memory.
 */
export class ResponseBudget {
  private readonly keyAccounts = new Map<string, KeyAccount>();
  private readonly reservedByCall = new Map<ServerCall, ReservedBytes>();

  constructor(private readonly limits: ResponseLimits) {}

  /**
   * Registers a call and reserves the estimated size of its response. Returns undefined if the call may continue now;
   * otherwise a promise that resolves when the call may continue, or when it has ended.
   */
  registerCall(call: ServerCall): Promise<void> | undefined {
    const keyId = (call.context.principal as Principal | undefined)?.keyId;
    // Methods that require no key have small responses, so their calls are not counted.
    if (keyId === undefined || call.context.abortReason) return undefined;
    const reserved = { ...this.getOrCreateAccounts(keyId, call.session), bytes: 0 };
    this.reservedByCall.set(call, reserved);
    reserved.sessionAccount.callCount += 1;
    if (call.method.isUnary && this.mustWait(reserved)) {
      return new Promise((resolve) => reserved.sessionAccount.resumeByWaitingCall.set(call, resolve));
    }
    this.updateReserved(reserved, this.estimateBytes(call, reserved.keyAccount));
    return undefined;
  }

  /** Sets the current number of unread response bytes of a call. */
  setUnreadBytes(call: ServerCall, bytes: number): void {
    const reserved = this.reservedByCall.get(call);
    if (!reserved) return;
    if (call.method.isUnary && bytes > 0) reserved.keyAccount.lastBytesByMethod.set(call.method, bytes);
    this.updateReserved(reserved, bytes);
  }

  /** Whether the key of a call has reached a limit. */
  isLimitReached(call: ServerCall): boolean {
    const reserved = this.reservedByCall.get(call);
    return reserved !== undefined && this.isFull(reserved.keyAccount, reserved.sessionAccount);
  }

  /** Removes a call that has ended and whose responses were read or dropped. */
  unregisterCall(call: ServerCall): void {
    const reserved = this.reservedByCall.get(call);
    if (!reserved) return;
    const { keyAccount, sessionAccount } = reserved;
    this.reservedByCall.delete(call);
    sessionAccount.resumeByWaitingCall.get(call)?.(); // if it still waits: it then notices that it has ended
    sessionAccount.resumeByWaitingCall.delete(call);
    sessionAccount.callCount -= 1;
    if (sessionAccount.callCount === 0) keyAccount.sessions.delete(sessionAccount.session);
    if (keyAccount.sessions.size === 0) this.keyAccounts.delete(keyAccount.keyId);
    this.updateReserved(reserved, 0);
  }

  /**
   * Returns the accounts (the counted unread bytes) of a key and of one of its network connections (`session`). Creates
   * them on first use.
   */
  private getOrCreateAccounts(
    keyId: string,
    session: object,
  ): { keyAccount: KeyAccount; sessionAccount: SessionAccount } {
    const keyAccount = this.keyAccounts.get(keyId) ?? {
      keyId,
      bytes: 0,
      lastBytesByMethod: new Map<MethodHandler, number>(),
      sessions: new Map<object, SessionAccount>(),
      isResumeScheduled: false,
    };
    const existingSession = keyAccount.sessions.get(session);
    const sessionAccount = existingSession ?? {
      session,
      bytes: 0,
      callCount: 0,
      resumeByWaitingCall: new Map<ServerCall, () => void>(),
    };
    this.keyAccounts.set(keyId, keyAccount);
    if (!existingSession) keyAccount.sessions.set(session, sessionAccount);
    return { keyAccount, sessionAccount };
  }

  /** Whether a new call must wait: the key has reached a limit, or earlier calls are about to continue. */
  private mustWait({ keyAccount, sessionAccount }: ReservedBytes): boolean {
    if (this.isFull(keyAccount, sessionAccount) || sessionAccount.resumeByWaitingCall.size > 0) return true;
    return keyAccount.isResumeScheduled && [...keyAccount.sessions.values()].some(hasWaitingCalls);
  }

  /** Whether the key has reached a limit, in total or on this network connection. */
  private isFull(keyAccount: KeyAccount, sessionAccount: SessionAccount): boolean {
    return sessionAccount.bytes >= this.limits.bytesPerConnection || keyAccount.bytes >= this.limits.bytesPerKey;
  }

  /**
   * Replaces the number of bytes that a call reserves, and updates both accounts. If the number falls, waiting calls of
   * the key may continue.
   */
  private updateReserved(reserved: ReservedBytes, bytes: number): void {
    const increase = bytes - reserved.bytes;
    reserved.bytes = bytes;
    reserved.keyAccount.bytes += increase;
    reserved.sessionAccount.bytes += increase;
    if (increase < 0) this.scheduleResume(reserved.keyAccount);
  }

  /**
   * Estimates the size of a response before its handler runs: the size of the last response of the method to the same
   * key, at least 64 KiB for a list. 0 for a stream, whose messages are counted as they are sent.
   */
  private estimateBytes({ method }: ServerCall, { lastBytesByMethod }: KeyAccount): number {
    if (!method.isUnary) return 0;
    return Math.max(method.isList ? MIN_LIST_BYTES_ESTIMATE : 0, lastBytesByMethod.get(method) ?? 0);
  }

  /**
   * Resumes waiting calls in the next turn of the event loop, after its network events: if many connections are closed
   * at once, their waiting calls have then ended, and their handlers do not run.
   */
  private scheduleResume(keyAccount: KeyAccount): void {
    if (keyAccount.isResumeScheduled) return;
    keyAccount.isResumeScheduled = true;
    setImmediate(() => {
      keyAccount.isResumeScheduled = false;
      this.resumeWaitingCalls(keyAccount);
    });
  }

  /**
   * Resumes a batch of waiting calls while the limits allow it, one call per network connection in turn, so that no
   * connection waits for all calls of another one. More calls continue in the next turn of the event loop.
   */
  private resumeWaitingCalls(keyAccount: KeyAccount): void {
    let resumedCount = 0;
    for (const [session, sessionAccount] of keyAccount.sessions) {
      const [nextWaiting] = sessionAccount.resumeByWaitingCall;
      if (!nextWaiting || this.isFull(keyAccount, sessionAccount)) continue;
      resumedCount += 1;
      if (resumedCount > MAX_RESUMED_PER_TURN) return this.scheduleResume(keyAccount);
      const [call, resume] = nextWaiting;
      sessionAccount.resumeByWaitingCall.delete(call);
      const reserved = this.reservedByCall.get(call);
      if (reserved) this.updateReserved(reserved, this.estimateBytes(call, keyAccount));
      keyAccount.sessions.delete(session); // moved to the end of the map, so that the loop visits it again
      keyAccount.sessions.set(session, sessionAccount);
      resume();
    }
  }
}

function hasWaitingCalls({ resumeByWaitingCall }: SessionAccount): boolean {
  return resumeByWaitingCall.size > 0;
}
