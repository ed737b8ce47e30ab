import type { AuditLog } from '../../access';
import type { Sandbox } from '../../codec';
import type { Counter } from '../../kernel/counter';
import type { MediaService } from '../../media';
import { counter, gauge, histogram, plainCounter, type MetricFamily } from './metricFamily';

/** The sources of the metrics of other work than calls and uplinks. */
export interface WorkSource {
  readonly sandbox: Pick<Sandbox, 'counts' | 'getLoad'>;
  readonly media: Pick<MediaService, 'counts' | 'queueLength'>;
  readonly auditLog: Pick<AuditLog, 'getStats'>;
  /** Log lines with level warn or error. */
  readonly logLines: Pick<Counter, 'entries'>;
}

/** Creates the metrics of scripts, images, the audit trail and the log. */
export function createWorkFamilies({ sandbox, media, auditLog, logLines }: WorkSource): MetricFamily[] {
  return [
    counter(
      'plantroom_codec_executions_total',
      'Runs of encoders and decoders: ok, refused (queue full, or no thread could start), or an error code.',
      'result',
      sandbox.counts.runs,
    ),
    histogram('plantroom_codec_execution_duration_seconds', 'Run time of scripts.', sandbox.counts.durations),
    histogram('plantroom_codec_request_duration_seconds', 'Queue time and run time of scripts.', sandbox.counts.waits),
    gauge('plantroom_codec_queue_length', 'Scripts that wait for a thread.', () => sandbox.getLoad().waiting),
    gauge('plantroom_codec_workers', 'Threads for scripts.', () => sandbox.getLoad().threads),
    gauge(
      'plantroom_codec_workers_busy',
      'Threads that run a script, clean up after one, or start.',
      () => sandbox.getLoad().busyThreads,
    ),
    counter(
      'plantroom_codec_worker_restarts_total',
      'Replaced script threads by reason: timed_out, corrupted, crashed or not_started.',
      'reason',
      sandbox.counts.threadEnds,
    ),
    counter(
      'plantroom_media_uploads_total',
      'Uploaded images: stored, refused, or failed (server error).',
      'result',
      media.counts.uploads,
    ),
    histogram(
      'plantroom_media_processing_duration_seconds',
      'Queue time and processing time of images.',
      media.counts.durations,
    ),
    gauge('plantroom_media_queue_length', 'Images that wait to be processed.', () => media.queueLength),
    plainCounter(
      'plantroom_audit_events_total',
      'Events sealed into the audit trail.',
      () => auditLog.getStats().appended,
    ),
    gauge('plantroom_audit_events_pending', 'Audit events that are not sealed yet.', () => auditLog.getStats().waiting),
    plainCounter(
      'plantroom_audit_events_lost_total',
      'Audit events lost because the queue was full.',
      () => auditLog.getStats().lost,
    ),
    counter(
      'plantroom_log_messages_total',
      'Log lines by level: warn (recovered automatically) and error (a person must act).',
      'level',
      logLines,
    ),
  ];
}
