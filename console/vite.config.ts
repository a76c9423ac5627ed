import { defineConfig } from "vite";

// The output is the same on every machine: exact versions (package.json), no time, no address.
export default defineConfig({
  base: "/ui/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  server: {
    port: 0,
    proxy: {
      "^/(streams|users|stats|clients|personal-access-tokens|metrics|logs|server|cluster|snapshot|reports)": {
        target: process.env.BORZOI_HTTP ?? "http://127.0.0.1:3000",
      },
    },
  },
});
