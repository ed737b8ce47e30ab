import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../kernel/clock';
import { DomainError } from '../../kernel/errors';
import type { Logger } from '../../kernel/logger';
import type { LinkedContent } from '../pipeline/handlers';
import { clientCancelled } from '../pipeline/activeCall';
import { sendContent } from './content';
import { abortResponse, isClientDisconnected, rejectKeysInUrl, getRequestId } from './headers';
import { getPeer } from './peer';

/**
 * Serves content that signed links open without an API key. Errors go to the error handler of the app. Each response is
 * logged without the query, because the query is secret.
 */
export function addLinks(
  app: FastifyInstance,
  links: readonly LinkedContent[],
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): void {
  for (const link of links)
    app.route({
      method: ['GET', 'HEAD'],
      url: link.path,
      handler: (request, reply) => void serveLink(link, request, reply).catch((error: unknown) => reply.send(error)),
    });

  /**
   * Responds with the content of a link and logs that. An error before the response has started goes to the error
   * handler; a later one cuts the response off.
   */
  async function serveLink(link: LinkedContent, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const startedAt = clock.monotonic();
    const peer = getPeer(request); // read early, because it is lost when the client disconnects
    rejectKeysInUrl(request);
    const content = await link.open(request.params as Record<string, string>, request.query as URLSearchParams);
    // Pages of other origins may show images: the link itself grants access.
    void reply.header('cross-origin-resource-policy', 'cross-origin');
    const createLogFields = (http: number, reason?: string): object => ({
      verb: request.method,
      path: request.url.split('?')[0],
      http,
      reason,
      duration_ms: Math.round((clock.monotonic() - startedAt) * 1000) / 1000,
      request_id: getRequestId(reply),
      peer,
    });
    try {
      const http = await sendContent(request, reply, content);
      log.info(createLogFields(http), 'http.content');
    } catch (error) {
      if (!reply.raw.headersSent && !isClientDisconnected(reply)) throw error;
      abortResponse(reply);
      if (error instanceof DomainError && error.reason === clientCancelled().reason)
        log.info(createLogFields(499, error.reason), 'http.content');
      else log.warn({ ...createLogFields(reply.statusCode, 'broken_off'), err: error }, 'http.content');
    }
  }
}
