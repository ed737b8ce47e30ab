import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Variant } from './media';

const MIN_VALIDITY_MS = 3_600_000;
/**
 * Links that are created within the same quarter of an hour are equal, so that a browser finds the image in its cache.
 */
const EXPIRY_STEP_MS = 900_000;

/** A valid link. */
interface MediaLink {
  readonly organizationId: string;
  readonly id: string;
  readonly variant: Variant;
}

/**
 * Links that open an image in a browser without a key: signed, for one image of one organization, valid for at least an
 * hour.
 */
export class MediaLinks {
  /**
   * `publicUrl`: the base URL for browsers, without a trailing slash, known only once the port is bound; empty: there
   * are no links.
   */
  constructor(
    private readonly secret: Buffer,
    private readonly publicUrl: () => string,
    private readonly clock: { now(): number },
  ) {}

  /** Creates both links of an image. */
  createLinks(organizationId: string, id: string): { readonly url: string; readonly thumbnailUrl: string } {
    if (this.publicUrl() === '') return { url: '', thumbnailUrl: '' };
    const minExpiresAt = this.clock.now() + MIN_VALIDITY_MS;
    const expiresAt = Math.ceil(minExpiresAt / EXPIRY_STEP_MS) * EXPIRY_STEP_MS;
    const expires = String(expiresAt / 1000);
    const createLink = (variant: Variant): string => {
      const query = new URLSearchParams({
        organization: organizationId,
        variant,
        expires,
        signature: this.sign(organizationId, id, variant, expires),
      });
      return `${this.publicUrl()}/media/${encodeURIComponent(id)}?${query}`;
    };
    return { url: createLink('original'), thumbnailUrl: createLink('thumbnail') };
  }

  /** Returns the image of a link; undefined if the link is forged, changed or expired. */
  open(id: string, query: URLSearchParams): MediaLink | undefined {
    const organizationId = query.get('organization') ?? '';
    const variant = query.get('variant') ?? '';
    const expires = query.get('expires') ?? '';
    const signature = Buffer.from(query.get('signature') ?? '');
    const expected = Buffer.from(this.sign(organizationId, id, variant, expires));
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) return undefined;
    // The signature covers the variant, so it is valid.
    return this.clock.now() < Number(expires) * 1000 ? { organizationId, id, variant: variant as Variant } : undefined;
  }

  /** Signs everything that a link contains, so that no part of it can be changed. */
  private sign(organizationId: string, id: string, variant: string, expires: string): string {
    return createHmac('sha256', this.secret)
      .update(JSON.stringify(['media', organizationId, id, variant, expires]))
      .digest('base64url');
  }
}
