import type { Clock } from '../../kernel/clock';
import { MINUTE_MS } from '../../kernel/timeUnits';

/** One run of a decoder for one uplink. */
export interface DecoderRun {
  /** The key of the decoder in its current version and of its organization. */
  readonly decoder: string;
  /** The key of the physical device. */
  readonly device: string;
  /** The key of the uplink; the same for repeated deliveries of one uplink. */
  readonly uplink: string;
  /** Whether this may be a repeated delivery of an earlier uplink with the same key. False: it certainly is not. */
  readonly mayBeRepetition: boolean;
}

/** One run that exceeded its time or memory limit. */
interface Overrun {
  readonly uplink: string;
  readonly device: string;
  /** Time of the monotonic clock. */
  readonly endedAt: number;
  readonly durationMs: number;
}

/** The overruns of a decoder, with one device or with all devices of the organization. */
interface History {
  /** The overruns of the last minute, including those before a successful run. */
  recent: readonly Overrun[];
  /**
   * The overruns since the last successful run: in the history of a device at most MIN_SUSPENDING_OVERRUNS, in the
   * history of a decoder one per device.
   */
  consecutive: readonly Overrun[];
  /** The time of the last overrun, on the monotonic clock. */
  lastOverrunAt: number;
  /** Time of the monotonic clock. */
  suspendedUntil: number;
}

/** This many consecutive overruns with one device suspend the decoder for that device. */
const MIN_SUSPENDING_OVERRUNS = 3;
/** Overruns of more than this total within one minute suspend the decoder for that device. */
const MAX_DEVICE_OVERRUN_MS = 3000;
/** Overruns with this many devices suspend the decoder for the organization. */
const MIN_SUSPENDING_DEVICES = 3;
/** Overruns with that many devices that are not consecutive suspend it only above this total within one minute. */
const MAX_DECODER_OVERRUN_MS = MIN_SUSPENDING_DEVICES * MAX_DEVICE_OVERRUN_MS;
const SUSPENSION_MS = MINUTE_MS;
const HISTORY_TTL_MS = 5 * MINUTE_MS;
const MAX_HISTORIES = 10_000;

/**
 * Suspends, for one minute, decoders that repeatedly exceed their time or memory limit (an overrun).
 *
 * A decoder is suspended for one device after three consecutive overruns with that device, or after overruns of more
 * than 3 s in total within one minute. Afterwards it is tried again; one more overrun before a successful run suspends
 * it again.
 *
 * A decoder is suspended for the whole organization after consecutive overruns with three different devices, or after
 * overruns with three different devices of more than 9 s in total within one minute. Afterwards its history is empty.
 *
 * So one device with unusual or hostile data cannot suspend the decoder for other devices. Histories without an overrun
 * for five minutes are discarded.
 */
export class OverrunTracker {
  private readonly historyByDevice = new Map<string, History>();
  private readonly historyByDecoder = new Map<string, History>();

  constructor(private readonly clock: Pick<Clock, 'monotonic'>) {}

  /** Returns the remaining suspension of the decoder, milliseconds; 0 if it may run. */
  getSuspensionMs(run: DecoderRun): number {
    const until = Math.max(
      this.historyByDecoder.get(run.decoder)?.suspendedUntil ?? 0,
      this.historyByDevice.get(getDeviceKey(run))?.suspendedUntil ?? 0,
    );
    return Math.max(0, until - this.clock.monotonic());
  }

  /** Whether the last run with this device was an overrun, less than five minutes ago. */
  isSuspect(run: DecoderRun): boolean {
    const history = this.historyByDevice.get(getDeviceKey(run));
    return history !== undefined && history.consecutive.length > 0 && !isExpired(history, this.clock.monotonic());
  }

  /**
   * Records an overrun that has just ended, in the histories of its device and of its decoder. Suspends the decoder for
   * the device if necessary. Repeated deliveries of one uplink count once.
   */
  addOverrun(run: DecoderRun, durationMs: number): void {
    const { decoder, device, uplink, mayBeRepetition } = run;
    const endedAt = this.clock.monotonic();
    const history = this.getOrCreateHistory(this.historyByDevice, getDeviceKey(run), endedAt);
    const isCounted = [...history.consecutive, ...history.recent].some((counted) => counted.uplink === uplink);
    if (mayBeRepetition && isCounted) return;
    const overrun = { uplink, device, endedAt, durationMs };
    addRecent(history, overrun);
    if (history.consecutive.length < MIN_SUSPENDING_OVERRUNS) history.consecutive = [...history.consecutive, overrun];
    if (history.consecutive.length >= MIN_SUSPENDING_OVERRUNS || sumDurations(history.recent) > MAX_DEVICE_OVERRUN_MS)
      history.suspendedUntil = endedAt + SUSPENSION_MS;
    this.addDecoderOverrun(this.getOrCreateHistory(this.historyByDecoder, decoder, endedAt), overrun);
  }

  /** Records a run within its limits, whatever its result was: earlier overruns no longer count as consecutive. */
  addSuccess(run: DecoderRun): void {
    for (const history of [this.historyByDevice.get(getDeviceKey(run)), this.historyByDecoder.get(run.decoder)])
      if (history) history.consecutive = [];
  }

  /**
   * Records an overrun in the history of a decoder. Suspends the decoder for the whole organization after overruns with
   * MIN_SUSPENDING_DEVICES different devices, either consecutive or of more than MAX_DECODER_OVERRUN_MS in total within
   * one minute.
   */
  private addDecoderOverrun(history: History, overrun: Overrun): void {
    if (history.suspendedUntil > overrun.endedAt) return; // the run started before the suspension
    addRecent(history, overrun);
    if (!history.consecutive.some(({ device }) => device === overrun.device))
      history.consecutive = [...history.consecutive, overrun];
    const isSlowWithManyDevices =
      sumDurations(history.recent) > MAX_DECODER_OVERRUN_MS &&
      new Set(history.recent.map(({ device }) => device)).size >= MIN_SUSPENDING_DEVICES;
    if (history.consecutive.length < MIN_SUSPENDING_DEVICES && !isSlowWithManyDevices) return;
    history.suspendedUntil = overrun.endedAt + SUSPENSION_MS;
    history.recent = [];
    history.consecutive = [];
  }

  /**
   * Returns the history of a device or decoder, a new one if there is none or it is expired. Moves the history to the
   * end of the map, so that the least recent ones are first, and discards expired ones and those beyond the limit.
   */
  private getOrCreateHistory(histories: Map<string, History>, key: string, now: number): History {
    const existing = histories.get(key);
    const history =
      existing && !isExpired(existing, now)
        ? existing
        : { recent: [], consecutive: [], lastOverrunAt: now, suspendedUntil: 0 };
    histories.delete(key);
    histories.set(key, history);
    history.lastOverrunAt = now;
    for (const [oldestKey, { lastOverrunAt }] of histories) {
      if (histories.size <= MAX_HISTORIES && !isExpired({ lastOverrunAt }, now)) break;
      histories.delete(oldestKey);
    }
    return history;
  }
}

/** Adds an overrun and forgets those older than one minute before it. */
function addRecent(history: History, overrun: Overrun): void {
  history.recent = [...history.recent.filter(({ endedAt }) => endedAt > overrun.endedAt - MINUTE_MS), overrun];
}

/** Returns the total duration in milliseconds. */
function sumDurations(overruns: readonly Overrun[]): number {
  return overruns.reduce((total, { durationMs }) => total + durationMs, 0);
}

/** Whether the last overrun of a history is more than five minutes old. */
function isExpired({ lastOverrunAt }: Pick<History, 'lastOverrunAt'>, now: number): boolean {
  return lastOverrunAt < now - HISTORY_TTL_MS;
}

/** Returns the key of a device in the history map: each decoder has its own histories of devices. */
function getDeviceKey({ decoder, device }: DecoderRun): string {
  return `${decoder} ${device}`;
}
