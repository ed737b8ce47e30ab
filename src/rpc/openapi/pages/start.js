// The page at /docs: shows /openapi.json, and asks nobody else. It may be opened by any name of the server, and through a proxy that puts a
// path before it: so all is where the page is, whatever address the document names.
const root = new URL('..', location.href).href;

SwaggerUIBundle({
  url: `${root}openapi.json`,
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
  onComplete: closeGrpcPaths,
  plugins: [{ statePlugins: { spec: { wrapActions: { updateJsonSpec: (update) => (document) => update(askedHere(document)) } } } }],
});

function askedHere(document) {
  return { ...document, servers: [{ url: root.replace(/\/$/, '') }] };
}

// They are the other operations once more, so they begin closed.
function closeGrpcPaths() {
  const tag = document.querySelector('#operations-tag-gRPC_paths');
  const isAskedFor = location.hash.startsWith('#/gRPC');
  if (tag && !isAskedFor && tag.getAttribute('data-is-open') === 'true') tag.click();
}
