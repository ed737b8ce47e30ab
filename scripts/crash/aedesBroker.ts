import type { Readable } from 'node:stream';
import { Aedes, type Client } from 'aedes';

/** A message in the session of a client. */
interface SessionMessage {
  /** The packet identifier; undefined if the message was never sent. */
  readonly messageId?: number;
}

/** The members of aedes that its types do not declare. */
interface AedesInternals {
  readonly persistence: {
    /** Reads the unacknowledged messages of a client that connects. */
    outgoingStream(client: Client): Readable;
  };
}
interface ClientInternals {
  /** The packet identifier of the next message to the client. */
  _nextId: number;
}

/**
 * Creates an aedes broker that resumes sessions as MQTT requires. aedes 1.2 alone breaks two rules, and then no
 * subscriber can store every uplink exactly once:
 * - A message that is sent again must have the DUP flag (MQTT-3.3.1-1). aedes never sets it, so a repeated message looks
 *   like a new one with the same content and a reused packet identifier.
 * - A new message must have an unused packet identifier (MQTT-2.3.1-4). In aedes each connection starts at a random one,
 *   which an unacknowledged message may have. The acknowledgement of either message then deletes the older one.
 */
export async function createAedesBroker(): Promise<Aedes> {
  const newestConnections = new Map<string, ClientInternals>();
  const aedes = await Aedes.createBroker({
    preConnect: (client, { clientId }, done) => {
      const connection = client as unknown as ClientInternals;
      connection._nextId = newestConnections.get(clientId)?._nextId ?? connection._nextId;
      newestConnections.set(clientId, connection);
      done(null, true);
    },
  });
  const { persistence } = aedes as unknown as AedesInternals;
  const outgoingStream = persistence.outgoingStream.bind(persistence);
  persistence.outgoingStream = (client) =>
    outgoingStream(client).map((message: SessionMessage) => ({ ...message, dup: message.messageId !== undefined }));
  return aedes;
}
