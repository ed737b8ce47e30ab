import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { LinkedContent } from '../handlers';
import { callerGone } from '../openCall';
import { sendContent } from './content';
import { cut, isGone, refuseKeys, requestIdOf } from './headers';
import { peerOf } from './peer';

/** Serves content that links open without a key. What is refused goes to the error handler of the app; what is answered is one line in the log, without the query: it is a secret. */
export function addLinks(app: FastifyInstance, links: readonly LinkedContent[], { clock, log }: { readonly clock: Clock; readonly log: Logger }): void {
  for (const link of links) app.route({ method: ['GET', 'HEAD'], url: link.path, handler: (request, reply) => void answer(link, request, reply).catch((error: unknown) => reply.send(error)) });

  async function answer(link: LinkedContent, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const startedAt = clock.monotonic();
    const peer = peerOf(request); // a caller that left has none
    refuseKeys(request);
    const content = await link.open(request.params as Record<string, string>, request.query as URLSearchParams);
    // Pages of other origins show pictures; the link itself says who may.
    void reply.header('cross-origin-resource-policy', 'cross-origin');
    const line = (http: number, reason?: string): object => ({
      verb: request.method,
      path: request.url.split('?')[0],
      http,
      reason,
      duration_ms: Math.round((clock.monotonic() - startedAt) * 1000) / 1000,
      request_id: requestIdOf(reply),
      peer,
    });
    try {
      const http = await sendContent(request, reply, content);
      log.info(line(http), 'http.content');
    } catch (error) {
      if (!reply.raw.headersSent && !isGone(reply)) throw error;
      cut(reply);
      if (error instanceof DomainError && error.reason === callerGone().reason) log.info(line(499, error.reason), 'http.content');
      else log.warn({ ...line(reply.statusCode, 'broken_off'), err: error }, 'http.content');
    }
  }
}
