// The page at /docs shows the OpenAPI documents and sends requests only to its own server. The page may be opened under any
// host name of the server and through a proxy that adds a path prefix, so all URLs are relative to the page, whatever URL
// the document contains.
const root = new URL('..', location.href).href;

SwaggerUIBundle({
  url: `${root}${location.search === '?grpc' ? 'openapi-grpc.json' : 'openapi.json'}`,
  dom_id: '#page',
  presets: [SwaggerUIBundle.presets.apis],
  layout: 'BaseLayout',
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  defaultModelExpandDepth: 3,
  defaultModelRendering: 'example',
  displayOperationId: true,
  displayRequestDuration: true,
  filter: true,
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  plugins: [
    {
      statePlugins: {
        spec: { wrapActions: { updateJsonSpec: (update) => (document) => update(useThisServer(document)) } },
      },
    },
  ],
});

function useThisServer(document) {
  return { ...document, servers: [{ url: root.replace(/\/$/, '') }] };
}
