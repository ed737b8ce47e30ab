import type { AuditTrail } from '../../access';
import type { Sandbox } from '../../codec';
import type { Tally } from '../../kernel/tally';
import type { MediaService } from '../../media';
import { counter, gauge, histogram, total, type Family } from './family';

/** What works beside calls and uplinks. */
export interface WorkSource {
  readonly sandbox: Pick<Sandbox, 'counts' | 'load'>;
  readonly media: Pick<MediaService, 'counts' | 'waiting'>;
  readonly trail: Pick<AuditTrail, 'figures'>;
  /** Lines of the log that are warnings or errors. */
  readonly logLines: Pick<Tally, 'entries'>;
}

/** Scripts, pictures, the audit trail, the log. */
export function workFamilies({ sandbox, media, trail, logLines }: WorkSource): Family[] {
  return [
    counter('plantroom_script_runs_total', 'Runs of encoders and decoders: ok, refused (too many waited, or no thread could be started), or the code of their error.', 'result', sandbox.counts.runs),
    histogram('plantroom_script_duration_seconds', 'How long scripts ran.', sandbox.counts.durations),
    histogram('plantroom_script_turn_duration_seconds', 'How long scripts waited for their turn and ran.', sandbox.counts.waits),
    gauge('plantroom_scripts_waiting', 'Scripts that wait for a thread.', () => sandbox.load().waiting),
    gauge('plantroom_script_threads', 'Threads for scripts.', () => sandbox.load().threads),
    gauge('plantroom_script_threads_working', 'Those of them that run a script, clean up after one or start.', () => sandbox.load().working),
    counter('plantroom_script_threads_ended_total', 'Threads for scripts that were replaced, by why: hung, spoiled, crashed or not_started.', 'reason', sandbox.counts.threadEnds),
    counter('plantroom_pictures_total', 'Pictures that were uploaded: stored, refused, or failed by no fault of the caller.', 'result', media.counts.uploads),
    histogram('plantroom_picture_duration_seconds', 'How long pictures waited and were looked at.', media.counts.durations),
    gauge('plantroom_pictures_waiting', 'Pictures that wait to be looked at.', () => media.waiting),
    total('plantroom_audit_events_total', 'Events that were sealed into the audit trail.', () => trail.figures().sealed),
    gauge('plantroom_audit_events_waiting', 'Events of the audit trail that are not sealed yet.', () => trail.figures().waiting),
    total('plantroom_audit_events_lost_total', 'Events of the audit trail that were lost because too many waited.', () => trail.figures().lost),
    counter('plantroom_log_lines_total', 'Lines of the log, by level: warn (healed by itself) and error (a person must act).', 'level', logLines),
  ];
}
